"""Split validation pairs off the training corpora if data.dev is not set, and pairs to measure forgetting with.

Every run draws the same pairs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from dragoman.data.corpus import Chunk, CorpusConfig, read_chunks
from dragoman.data.permutation import key, subkeys
from dragoman.io.durable import write_durably
from dragoman.io.streams import STANDARD_INPUT, is_utf8

DEV: Final = "dev"

_LINES: Final = 50_000
_LONGEST: Final = 1000
"""The maximum bytes per sentence: a single huge line would take most of the validation time."""

Pair = tuple[int, bytes, bytes]
"""A random number, a source sentence and its target."""


class DevSplit(NamedTuple):
    """The drawn pairs, and the folder to write them to."""

    folder: Path
    source: bytes
    target: bytes
    name: str = DEV
    language: str | None = None
    """The target language, if there are several."""

    @property
    def corpus(self) -> CorpusConfig:
        """The pairs as a corpus; `prepare` removes them from the training pairs."""
        source, target = (str(path) for path, _ in self._files())
        return CorpusConfig(name=self.name, source=source, target=target, target_language=self.language)

    @property
    def is_written(self) -> bool:
        """True if the files exist and contain the drawn pairs."""
        return all(path.is_file() and path.read_bytes() == content for path, content in self._files())

    def write(self) -> None:
        """Write the files unless they are up to date, since `prepare` treats a newer file as changed."""
        if not self.is_written:
            for path, content in self._files():
                write_durably(path, content)

    def _files(self) -> tuple[tuple[Path, bytes], ...]:
        paths = (self.folder / f"{self.name}.{side}" for side in ("source", "target"))
        return tuple(zip(paths, (self.source, self.target), strict=True))


def split_languages(corpora: Sequence[CorpusConfig], num_pairs: int, seed: int, folder: Path) -> tuple[DevSplit, ...]:
    """Draw validation pairs as `split_off` does; of several target languages, each gets its own share of the pairs."""
    by_language: dict[str | None, list[CorpusConfig]] = {}
    for corpus in corpora:
        by_language.setdefault(corpus.target_language, []).append(corpus)
    share = max(1, num_pairs // len(by_language))
    return tuple(
        split_off(of_language, share, seed, folder, f"{DEV}-{language}" if language else DEV)
        for language, of_language in by_language.items()
    )


def split_off(corpora: Sequence[CorpusConfig], num_pairs: int, seed: int, folder: Path, name: str = DEV) -> DevSplit:
    """Draw validation pairs from the corpora, without writing files."""
    drawn: dict[bytes, Pair] = {}
    num_lines = 0
    for corpus in corpora:
        if corpus.source == STANDARD_INPUT:
            raise ValueError("standard input can be read only once: set data.dev, or give the training pairs as a file")
        for chunk in read_chunks(corpus, _LINES):
            _draw(chunk, num_pairs, key(seed, "dev", corpus.name), drawn)
            drawn = dict(sorted(drawn.items(), key=lambda item: item[1][0])[:num_pairs])
            num_lines += len(chunk)
    where = corpora[0].source
    if not drawn:
        raise ValueError(f"{where}: no pair is suitable for validation: run dragoman prepare to see the problems")
    if 2 * len(drawn) > num_lines:
        few = f"{where}: {num_lines:,} pairs are too few to split off {num_pairs:,} for validation"
        raise ValueError(f"{few}: set data.split to {max(1, num_lines // 10)}, or set data.dev")
    sources, targets = zip(*((source + b"\n", target + b"\n") for _, source, target in drawn.values()), strict=True)
    return DevSplit(folder, b"".join(sources), b"".join(targets), name, corpora[0].target_language)


def _draw(chunk: Chunk, num_pairs: int, word: int, drawn: dict[bytes, Pair]) -> None:
    """Add the pairs of a chunk with the lowest random numbers to `drawn`, each source only once."""
    numbers = subkeys(word, np.arange(len(chunk)) + chunk.first_line)
    enough = len(drawn) + num_pairs
    for row in numbers.argsort().tolist():
        source, target = (_fit(side[row].as_py()) for side in (chunk.source, chunk.target))
        if source and target:
            drawn.setdefault(source.lower(), (int(numbers[row]), source, target))
        if len(drawn) == enough:
            return


def _fit(text: bytes | None) -> bytes | None:
    """Return the stripped text, or None if the text is unsuitable for a validation set."""
    text = (text or b"").strip()
    return text if 0 < len(text) <= _LONGEST and b"\n" not in text and is_utf8(text) else None
