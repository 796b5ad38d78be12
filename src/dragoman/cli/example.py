"""`dragoman example`: write sentence pairs, generated or converted from a corpus, and a recipe to train on them."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dragoman.cli.command import check_name


def _names() -> list[str]:
    from dragoman.experiment.example import EXAMPLES

    return list(EXAMPLES)


def example(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="Example to write: dates (English dates to ISO 8601), g2p (letters to phonemes), parsing (words to "
            "trees), scan or scan-length (commands to actions).",
            autocompletion=_names,
        ),
    ],
    folder: Annotated[Path, Argument(metavar="DIR", help="New folder for the pairs and the recipe.")],
    corpus: Annotated[
        Path | None,
        Option(
            metavar="PATH", help="Corpus to convert: cmudict.dict, a folder of trees, or the folder of SCAN's splits."
        ),
    ] = None,
) -> None:
    """Write an example: training, dev and test pairs, and a recipe to train on them.

    Dates are generated, and the same every time; the other examples are converted from a public corpus on this machine.
    No date, word or command of the test set is in the training set, so a correct output cannot have been memorised.

        dragoman example dates dates/

        dragoman example g2p g2p/ --corpus cmudict.dict
    """
    check_name("example", name, _names())
    from rich.console import Console

    from dragoman.data.corpus import CorpusConfig
    from dragoman.experiment.example import write_example
    from dragoman.recipes.recipe import load_recipe

    recipe = write_example(name, folder, corpus)
    console = Console(highlight=False, markup=False)
    data = load_recipe(recipe).data

    def sides(part: CorpusConfig) -> list[list[str]]:
        return [Path(str(side)).read_text(encoding="utf-8").splitlines() for side in (part.source, part.target)]

    for part in (data.train[0], *data.dev_sets, *data.test):
        source, target = Path(part.source), Path(str(part.target))
        console.print(
            f"{len(sides(part)[0]):6,} pairs in {folder / source.stem}{source.suffix} and {target.suffix}",
            soft_wrap=True,
        )
    for pair in list(zip(*sides(data.test[0]), strict=True))[:3]:
        console.print(f"       {' -> '.join(pair)}", soft_wrap=True)
    command = shlex.join(["dragoman", "train", str(recipe), "--out", f"{folder.name}-run"])
    console.print(f"to train a model in a few minutes: {command}", soft_wrap=True)
