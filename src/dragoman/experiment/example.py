"""Write examples: training, validation and test pairs, generated or converted from a public corpus, and a recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dragoman.data.bracketed_trees import read_trees
from dragoman.data.dates import dates
from dragoman.data.pronunciations import pad_references, read_pronunciations, spell, split_words
from dragoman.data.scan_commands import read_scan
from dragoman.io.streams import read_blocks
from dragoman.recipes.catalog import library_path

PARTS: Final = {"train": 15_000, "dev": 500, "test": 500}
"""The number of dates in each split; no date occurs in two splits."""

NUM_WORDS: Final = {"dev": 2_000, "test": 12_000}
"""The number of words of the pronunciation dictionary in the dev and test parts; the rest is for training."""

RECIPE: Final = "recipe.yaml"

CORPORA: Final = {
    "g2p": "the file cmudict.dict of CMUdict",
    "parsing": "a folder with train.ptb, dev.ptb and test.ptb, bracketed trees",
    "scan": "a folder with tasks_train_simple.txt and tasks_test_simple.txt of SCAN",
    "scan-length": "a folder with tasks_train_length.txt and tasks_test_length.txt of SCAN",
}
"""What `--corpus` must be, for each example that is made from a public corpus; a file may end in .gz or .zst."""

EXAMPLES: Final = ("dates", *CORPORA)

_DEV_EVERY: Final = 40
"""SCAN has no dev part: one of so many training pairs is taken."""

_Files = dict[str, list[str]]
"""The lines of each file, by name: `train.en`."""


def write_example(name: str, folder: Path, corpus: Path | None = None) -> Path:
    """Write the pairs and the recipe of an example to a new or empty folder; return the path of the recipe."""
    if name not in CORPORA:
        if corpus is not None:
            raise ValueError(f"the pairs of {name} are generated: leave out --corpus")
        return write_dates(folder)
    if corpus is None:
        raise ValueError(f"the pairs of {name} are made from a corpus: add --corpus PATH, {CORPORA[name]}")
    match name:
        case "g2p":
            files = _pronunciations(corpus)
        case "parsing":
            trees = {part: read_trees(_read_lines(_find(corpus / f"{part}.ptb"))) for part in PARTS}
            files = _files(trees, "words", "trees")
        case _:
            files = _commands(corpus, name)
    return _write(name, folder, files)


def write_dates(folder: Path, seed: int = 1) -> Path:
    """Write the dates example to a new or empty folder; return the path of the recipe."""
    pairs = iter(dates(sum(PARTS.values()), seed))
    rows = {part: [next(pairs) for _ in range(num)] for part, num in PARTS.items()}
    return _write("dates", folder, _files(rows, "en", "iso"))


def _pronunciations(corpus: Path) -> _Files:
    """Return all pronunciations of the training words, and the first one of the others; test words have all."""
    words = read_pronunciations(_read_lines(corpus))
    parts = dict(zip(PARTS, split_words(words, NUM_WORDS["dev"], NUM_WORDS["test"]), strict=True))
    rows = {
        part: [
            (spell(word), sound) for word in chosen for sound in (words[word] if part == "train" else words[word][:1])
        ]
        for part, chosen in parts.items()
    }
    further = enumerate(pad_references(words[word] for word in parts["test"]), 1)
    references = {f"test.{number}.phonemes": lines for number, lines in further if number > 1}
    return _files(rows, "letters", "phonemes") | references


def _commands(corpus: Path, name: str) -> _Files:
    """Return the pairs of a split of SCAN: `simple` or `length`."""
    split = "length" if name == "scan-length" else "simple"
    train, test = (read_scan(_read_lines(_find(corpus / f"tasks_{part}_{split}.txt"))) for part in ("train", "test"))
    dev = train[::_DEV_EVERY]
    del train[::_DEV_EVERY]
    return _files({"train": train, "dev": dev, "test": test}, "commands", "actions")


def _files(rows: Mapping[str, Sequence[tuple[str, str]]], *sides: str) -> _Files:
    return {
        f"{part}.{side}": list(lines)
        for part, pairs in rows.items()
        for side, lines in zip(sides, zip(*pairs, strict=True), strict=True)
    }


def _find(path: Path) -> Path:
    """Return the path of a file, or that of its compressed form if only that exists."""
    return next((found for end in ("", ".gz", ".zst") if (found := Path(f"{path}{end}")).is_file()), path)


def _read_lines(path: Path) -> list[str]:
    return b"".join(read_blocks(str(path))).decode().splitlines()


def _write(name: str, folder: Path, files: _Files) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty: give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in files.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    recipe = folder / RECIPE
    recipe.write_bytes(library_path(name).read_bytes())
    return recipe
