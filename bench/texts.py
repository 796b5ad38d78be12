"""Texts to measure with: corpora of $DRAGOMAN_DATA, or made-up sentences where there are none."""

import gzip
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
"""The folder of corpora; without the variable, shared/data beside the project."""

NOUNS = ["dog", "house", "river", "teacher", "letter", "window", "garden", "doctor", "friend", "train", "city", "book"]
VERBS = ["sees", "knows", "likes", "finds", "opens", "paints", "follows", "remembers"]
COLOURS = ["red", "old", "green", "small", "white", "strange", "beautiful", "empty"]


def read_lines(path: Path | str) -> list[str]:
    """Return the lines of a text file, unpacked if its name ends in .gz."""
    raw = Path(path).read_bytes()
    text = gzip.decompress(raw) if str(path).endswith(".gz") else raw
    return text.decode().removesuffix("\n").split("\n")


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write lines as UTF-8 and return the path."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def made_up_lines(count: int) -> Iterator[str]:
    """Yield English sentences, nearly all different; every 50th line is empty, every 50th a list item."""
    draw = random.Random(2017)
    for i in range(count):
        line = f"The {draw.choice(COLOURS)} {draw.choice(NOUNS)} {draw.choice(VERBS)} {i} {draw.choice(NOUNS)}s."
        yield "" if i % 50 == 7 else f"- {line} {line}" if i % 50 == 9 else line


def english_sentences(count: int) -> list[str]:
    """Return different sentences of Tatoeba, one per line also to the splitter, so that every side translates the same.

    Without the corpus they are made up, and a line on standard output says so.
    """
    from dragoman.translation.document import TextDocument

    path = DATA / "tatoeba-en-de" / "train.en.gz"
    if not path.is_file():
        print(f"made-up sentences: {path} does not exist; set DRAGOMAN_DATA", flush=True)
        return [line for line in made_up_lines(2 * count) if line.startswith("The ")][:count]
    sentences: dict[str, None] = {}
    for text in read_lines(path):
        if len(text) > 20 and TextDocument.of(text, "en").sentences == (text,):
            sentences[text] = None
        if len(sentences) == count:
            return list(sentences)
    raise SystemExit(f"{path} has only {len(sentences)} of {count} sentences: ask for fewer with --sentences")
