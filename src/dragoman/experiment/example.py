"""A first example on disk: generated pairs in three parts, and the recipe that learns from them."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from dragoman.data.dates import dates

PARTS: Final = {"train": 15_000, "dev": 500, "test": 500}
"""How many pairs each part has; no day is in two of them."""

RECIPE: Final = "recipe.yaml"


def write_dates(folder: Path, seed: int = 1) -> Path:
    """Writes the pairs as text and the recipe beside them, whose path it gives."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already, with something in it: give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    pairs = iter(dates(sum(PARTS.values()), seed))
    for part, num in PARTS.items():
        sides = zip(*(next(pairs) for _ in range(num)), strict=True)
        for language, texts in zip(("en", "iso"), sides, strict=True):
            (folder / f"{part}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    recipe = folder / RECIPE
    recipe.write_bytes(files("dragoman.experiment").joinpath("examples", "dates.yaml").read_bytes())
    return recipe
