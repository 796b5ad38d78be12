"""Writes what is made from the recipe's own description: recipes/schema.json and docs/reference/recipe.md.

python scripts/recipe_reference.py            write them
python scripts/recipe_reference.py --check    say whether they are up to date
"""

import json
import sys
from pathlib import Path
from typing import Any

from dragoman.experiment.outline import Outline, listed
from dragoman.experiment.recipe import Recipe
from dragoman.experiment.schema import published

ROOT = Path(__file__).parents[1]
HEAD = """# Recipe keys

Every key of a recipe with what may stand there, its default and its meaning. How recipes are written is told in
[Recipes](../guides/recipes.md). This page is made from the code: `python scripts/recipe_reference.py`.
"""
WRITTEN_BY_HAND = {
    "data.train.0": """\
Each entry of `data.train` and `data.test`, and `data.dev`. In a recipe, a corpus without a name is called `train`,
`dev` or `test`, the second one `train-2`, and so on.""",
    "data.clean": """\
What makes a pair unfit, and what is done about it. `policies` has the names of
[problems](../guides/prepare.md#what-it-does-about-what-is-wrong) for keys, and `drop`, `fix` or `keep` for values.""",
    "card.corpora.NAME": "One section for each training corpus, under its name.",
}


def page(schema: dict[str, Any]) -> str:
    """The whole page."""
    outline = Outline(schema)
    parts = [HEAD]
    for title, section in sections(outline, schema, ()):
        said = WRITTEN_BY_HAND.get(title, section.get("description", ""))
        parts += [f"## {title or 'The recipe'}\n", f"{said}\n", table(outline, section)]
    return "\n".join(parts)


def sections(outline: Outline, schema: dict[str, Any], key: tuple[str | int, ...]) -> Any:
    """Every section with its title, those it holds after it; a corpus is described once."""
    for section in outline.at(key, None):
        properties = section.get("properties", {})
        family = properties.get("family", {}).get("const")
        name = ".".join(str(part) for part in key)
        if properties:
            yield f"{name} of family {family}" if family else name, section
        for inner in properties:
            if (*key, inner) not in {("data", "dev"), ("data", "test")}:
                yield from sections(outline, schema, (*key, inner))
        if "items" in section:
            yield from sections(outline, schema, (*key, 0))
        if isinstance(section.get("additionalProperties"), dict):
            yield from sections(outline, schema, (*key, "NAME"))


def table(outline: Outline, section: dict[str, Any]) -> str:
    """The keys of one section."""
    rows = ["| key | what may stand there | default | meaning |", "|---|---|---|---|"]
    for name, field in section["properties"].items():
        expected = outline.expected(outline.alternatives(field, None))
        expected = "the name of a [preset](presets.md)" if name == "preset" else expected
        meaning = field.get("description", "")
        cells = [f"`{name}`", expected.removeprefix("expected "), default(name, field, section), meaning]
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def default(name: str, field: dict[str, Any], section: dict[str, Any]) -> str:
    """What is meant where the key is left out."""
    if name in section.get("required", ()):
        return "must be given"
    value = field.get("default")
    if "default" not in field or isinstance(value, dict):
        return ""
    return f"`{json.dumps(value)}`" if not isinstance(value, str) or not value else f"`{value}`"


def main() -> int:
    """Write, or compare."""
    schema = published(Recipe)
    files = {
        ROOT / "recipes" / "schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        ROOT / "docs" / "reference" / "recipe.md": page(schema),
    }
    if "--check" in sys.argv:
        old = [path.name for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
        print(f"out of date: {listed(old)}; run python scripts/recipe_reference.py" if old else "up to date")
        return 1 if old else 0
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
