"""Pairs put aside for validation where the user gave none: a keyed draw, the same in every run."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from dragoman.data.corpus import Chunk, CorpusConfig, read_chunks
from dragoman.data.durable import Sink, write_durably
from dragoman.data.permutation import key, subkeys
from dragoman.data.stream import STANDARD_INPUT

SOURCE: Final = "dev.source"
TARGET: Final = "dev.target"

_LINES: Final = 50_000
_LONGEST: Final = 1000
"""Bytes of a side; a monster line would cost each validation more than all others together."""

Pair = tuple[int, bytes, bytes]
"""Its lot, its source and its target."""


class Split(NamedTuple):
    """Pairs that were drawn, and the two files that are to hold them."""

    folder: Path
    source: bytes
    target: bytes

    @property
    def corpus(self) -> CorpusConfig:
        """Preparing keeps them out of the training pairs, as it does with any held-out set."""
        return CorpusConfig(name="dev", source=str(self.folder / SOURCE), target=str(self.folder / TARGET))

    @property
    def is_written(self) -> bool:
        """Whether the files are there, and hold these pairs."""
        return all(path.is_file() and path.read_bytes() == content for path, content in self._files())

    def write(self) -> None:
        """What is there already stays as it is: a file with a new date is another one to whoever prepared with it."""
        if not self.is_written:
            for path, content in self._files():
                write_durably(path, partial(_pour, content))

    def _files(self) -> tuple[tuple[Path, bytes], ...]:
        return (self.folder / SOURCE, self.source), (self.folder / TARGET, self.target)


def split_off(corpora: Sequence[CorpusConfig], num_pairs: int, seed: int, folder: Path) -> Split:
    """Draw pairs from the corpora. Nothing is written yet."""
    drawn: dict[bytes, Pair] = {}
    num_lines = 0
    for corpus in corpora:
        if corpus.source == STANDARD_INPUT:
            raise ValueError("standard input can be read only once: give data.dev, or the pairs in a file")
        for chunk in read_chunks(corpus, _LINES):
            _draw(chunk, num_pairs, key(seed, "dev", corpus.name), drawn)
            drawn = dict(sorted(drawn.items(), key=lambda item: item[1][0])[:num_pairs])
            num_lines += len(chunk)
    _require_rest(corpora[0].source, len(drawn), num_pairs, num_lines)
    sources, targets = zip(*((source + b"\n", target + b"\n") for _, source, target in drawn.values()), strict=True)
    return Split(folder, b"".join(sources), b"".join(targets))


def _draw(chunk: Chunk, num_pairs: int, word: int, drawn: dict[bytes, Pair]) -> None:
    """Add the pairs of a chunk with the lowest lots, each source once."""
    lots = subkeys(word, np.arange(len(chunk)) + chunk.first_line)
    enough = len(drawn) + num_pairs
    for row in lots.argsort().tolist():
        source, target = (_fit(side[row].as_py()) for side in (chunk.source, chunk.target))
        if source and target:
            drawn.setdefault(source.lower(), (int(lots[row]), source, target))
        if len(drawn) == enough:
            return


def _fit(text: bytes | None) -> bytes | None:
    """The text without spaces around it, if it can be a line of a validation set."""
    text = (text or b"").strip()
    if not text or len(text) > _LONGEST or b"\n" in text:
        return None
    try:
        text.decode()
    except UnicodeDecodeError:
        return None
    return text


def _require_rest(where: str, num_drawn: int, num_pairs: int, num_lines: int) -> None:
    if not num_drawn:
        raise ValueError(f"{where}: not one pair is fit for validation; dragoman prepare says what is wrong")
    if 2 * num_drawn > num_lines:
        raise ValueError(
            f"{where}: {num_lines:,} pairs are too few to put {num_pairs:,} of them aside for validation: set "
            f"data.split to {max(1, num_lines // 10)}, or give data.dev"
        )


def _pour(content: bytes, sink: Sink) -> None:
    sink.write(content)
