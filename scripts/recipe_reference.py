"""Write the files generated from the recipe schema: schema.json beside the recipes and docs/reference/recipe.md.

python scripts/recipe_reference.py            write them
python scripts/recipe_reference.py --check    exit with 1 if they are out of date
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.recipes.catalog import LIBRARY
from dragoman.recipes.recipe import Recipe
from dragoman.recipes.recipe_errors import list_words
from dragoman.recipes.schema import json_schema

ROOT = Path(__file__).parents[1]
HEAD = """# Recipe keys

Every key of a recipe with its type, default and meaning. [Recipes](../guides/recipes.md) explains how to write one.
This page is generated from the code: `python scripts/recipe_reference.py`.
"""
WRITTEN_BY_HAND = {
    "data.train.0": """\
Each entry of `data.train` and `data.test`, and `data.dev`, which may be a list too. In a recipe, a corpus without a
name is called `train`, `dev` or `test`, the second one `train-2`, and so on.""",
    "data.clean": """\
The problems that make a pair unfit, and how to treat them. `policies` maps names of
[problems](../guides/prepare.md#what-it-does-about-what-is-wrong) to `drop`, `fix` or `keep`.""",
    "card.corpora.NAME": "One section for each training corpus, under its name.",
}


Schema = dict[str, Any]


def page(schema: Schema) -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, section in sections(schema, schema, ()):
        description = WRITTEN_BY_HAND.get(title, section.get("description", ""))
        parts += [f"## {title or 'The recipe'}\n", f"{description}\n", table(schema, section)]
    return "\n".join(parts)


def sections(schema: Schema, field: Schema, key: tuple[str | int, ...]) -> Iterator[tuple[str, Schema]]:
    """Yield every section with its title, in depth-first order; a corpus is described once."""
    for section in alternatives(schema, field):
        properties = section.get("properties", {})
        family = properties.get("family", {}).get("const")
        name = ".".join(str(part) for part in key)
        if properties:
            yield f"{name} of family {family}" if family else name, section
        for inner, value in properties.items():
            if (*key, inner) not in {("data", "dev"), ("data", "test")}:
                yield from sections(schema, value, (*key, inner))
        if "items" in section:
            yield from sections(schema, section["items"], (*key, 0))
        if isinstance(section.get("additionalProperties"), dict):
            yield from sections(schema, section["additionalProperties"], (*key, "NAME"))


def alternatives(schema: Schema, field: Schema) -> list[Schema]:
    """Return what a field may be: references and unions are followed."""
    if "$ref" in field:
        return alternatives(schema, schema["$defs"][field["$ref"].rpartition("/")[2]])
    if choices := field.get("anyOf") or field.get("oneOf"):
        return [each for choice in choices for each in alternatives(schema, choice)]
    return [field] if field else []


def table(schema: Schema, section: Schema) -> str:
    """Return the table of one section's keys."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in section["properties"].items():
        kinds = sorted(alternatives(schema, field), key=lambda kind: kind.get("type") == "null")
        value = list_words(list(dict.fromkeys(word for kind in kinds for word in words(kind))))
        value = "the name of a [preset](presets.md)" if name == "preset" else value
        cells = [f"`{name}`", value, default(name, field, section), field.get("description", "")]
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def words(schema: Schema) -> list[str]:
    """Return the values that one alternative takes."""
    if "const" in schema or "enum" in schema:
        return [str(value) for value in schema.get("enum", [schema.get("const")])]
    match schema.get("type"):
        case "string" if "examples" in schema:
            return [f"a time such as {list_words(schema['examples'])}"]
        case "string":
            return ["text that is not empty" if schema.get("minLength") else "text"]
        case "integer":
            return [f"a whole number{bounds(schema)}"]
        case "number":
            return [f"a number{bounds(schema)}"]
        case "boolean":
            return ["true", "false"]
        case "array":
            return [f"a list of {schema['minItems']} or more" if "minItems" in schema else "a list"]
        case "object":
            return ["a section of keys"]
        case other:
            return [str(other)]


def bounds(schema: Schema) -> str:
    """Return limits as in: of 1 or more; above 0 and below 1."""
    bounds = [
        f" of {schema['minimum']:g} or more" if "minimum" in schema else "",
        f" above {schema['exclusiveMinimum']:g}" if "exclusiveMinimum" in schema else "",
        f" of at most {schema['maximum']:g}" if "maximum" in schema else "",
        f" below {schema['exclusiveMaximum']:g}" if "exclusiveMaximum" in schema else "",
    ]
    return " and".join(bound for bound in bounds if bound)


def default(name: str, field: dict[str, Any], section: dict[str, Any]) -> str:
    """Return the value of a missing key."""
    if name in section.get("required", ()):
        return "required"
    value = field.get("default")
    if "default" not in field or isinstance(value, dict):
        return ""
    return f"`{json.dumps(value)}`" if not isinstance(value, str) or not value else f"`{value}`"


def main() -> int:
    """Write the files, or compare them."""
    schema = json_schema(Recipe)
    files = {
        LIBRARY / "schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        ROOT / "docs" / "reference" / "recipe.md": page(schema),
    }
    if "--check" in sys.argv:
        old = [path.name for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
        print(f"out of date: {list_words(old)}; run python scripts/recipe_reference.py" if old else "up to date")
        return 1 if old else 0
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
