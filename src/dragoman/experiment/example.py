"""Write the dates example: generated training, validation and test pairs, and a recipe."""

from pathlib import Path
from typing import Final

from dragoman.data.dates import dates
from dragoman.recipes.catalog import library_path

PARTS: Final = {"train": 15_000, "dev": 500, "test": 500}
"""The number of pairs in each split; no date occurs in two splits."""

RECIPE: Final = "recipe.yaml"


def write_dates(folder: Path, seed: int = 1) -> Path:
    """Write the example pairs and the recipe to a new or empty folder; return the path of the recipe."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty: give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    pairs = iter(dates(sum(PARTS.values()), seed))
    for part, num in PARTS.items():
        sides = zip(*(next(pairs) for _ in range(num)), strict=True)
        for language, texts in zip(("en", "iso"), sides, strict=True):
            (folder / f"{part}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    recipe = folder / RECIPE
    recipe.write_bytes(library_path("dates").read_bytes())
    return recipe
