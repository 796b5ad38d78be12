"""`dragoman example`: write generated sentence pairs, and a recipe to train on them."""

import shlex
from pathlib import Path
from typing import Annotated, Final

from typer import Argument

from dragoman.cli.command import check_name

NAMES: Final = ("dates",)


def example(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="Example to write: dates (English dates to ISO 8601).",
            autocompletion=lambda: list(NAMES),
        ),
    ],
    folder: Annotated[Path, Argument(metavar="DIR", help="New folder for the sentence pairs and the recipe.")],
) -> None:
    """Write an example: sentence pairs, and a recipe to train on them.

    The pairs are generated, and the same every time. Each day occurs in only one of the training, dev and test sets, so
    a correct translation of the test set cannot have been memorised.

        dragoman example dates dates/
    """
    check_name("example", name, NAMES)
    from rich.console import Console

    from dragoman.experiment.example import PARTS, write_dates

    recipe = write_dates(folder)
    console = Console(highlight=False, markup=False)
    for part, num in PARTS.items():
        console.print(f"{num:6,} pairs in {folder / part}.en and .iso", soft_wrap=True)
    sides = [(folder / f"test.{language}").read_text(encoding="utf-8").splitlines()[:3] for language in ("en", "iso")]
    for source, target in zip(*sides, strict=True):
        console.print(f"       {source} -> {target}", soft_wrap=True)
    command = shlex.join(["dragoman", "train", str(recipe), "--out", f"{folder.name}-run"])
    console.print(f"to train a model in a few minutes: {command}", soft_wrap=True)
