"""`dragoman example`: something to train on when one has nothing yet."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Name(StrEnum):
    """The examples there are."""

    DATES = "dates"


def example(
    name: Annotated[Name, typer.Argument(help="dates: as people write them, to ISO 8601.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the files.")],
) -> None:
    """Write an example: sentence pairs, and a recipe that learns from them.

    The pairs are generated, the same every time. No day is in two of the three parts, so what the model gets right in
    the test part it has understood.
    """
    from rich.console import Console

    from dragoman.experiment.example import PARTS, write_dates

    assert name is Name.DATES
    recipe = write_dates(folder)
    console = Console(highlight=False, markup=False)
    for part, num in PARTS.items():
        console.print(f"{num:6,} pairs in {folder / part}.en and .iso", soft_wrap=True)
    sides = [(folder / f"test.{language}").read_text(encoding="utf-8").splitlines()[:3] for language in ("en", "iso")]
    for source, target in zip(*sides, strict=True):
        console.print(f"       {source} -> {target}", soft_wrap=True)
    command = shlex.join(["dragoman", "train", str(recipe), "--out", f"{folder.name}-run"])
    console.print(f"learn them in about 90 seconds: {command}", soft_wrap=True)
