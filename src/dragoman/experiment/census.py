"""What a first look at corpora says: how many pairs there are, how long, of which letters and words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.progress import Progress

_LINES: Final = 50_000
_FROM_EACH: Final = 5_000
_SAMPLE: Final = 20_000
"""Pairs that are looked at: at most so many of each chunk, and of all of them."""

_LETTERS_A_TOKEN: Final = 4.2
_UNSPACED_A_TOKEN: Final = 1.6
"""Characters of a subword, in scripts with spaces between words and in those without."""

_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,15}")

IDS: Final = 256 + 4 + 1
"""Ids of a vocabulary that knows nothing: bytes, specials, and the mark of a space."""


@dataclass(frozen=True)
class Census:
    """Counts of all pairs; letters and words of a sample."""

    pairs: int
    num_bytes: int
    """Of both sides, unpacked."""
    tokens: float
    """A pair's mean number of subwords, source and target together: an estimate."""
    letters: int
    """Different characters."""
    source_words: frozenset[str]
    target_words: frozenset[str]
    is_whole: bool
    """Whether the sample was everything."""

    @property
    def smallest(self) -> int:
        """The smallest vocabulary that has all letters, with some to spare for those that were not seen."""
        return IDS + (self.letters if self.is_whole else round(1.2 * self.letters))

    @property
    def largest(self) -> int:
        """A vocabulary that can surely be learned: every word could be one subword."""
        return IDS + self.letters + len(self.source_words | self.target_words)


def take_census(corpora: Sequence[CorpusConfig], progress: Progress | None = None) -> Census:
    """Reads everything once. Files that cannot be read, and sides of different length, are refused."""
    pairs = num_bytes = 0
    sides: tuple[list[str], list[str]] = ([], [])
    for corpus in corpora:
        for chunk in read_chunks(corpus, _LINES):
            room = min(_FROM_EACH, _SAMPLE - len(sides[0]))
            for side, texts in zip((chunk.source, chunk.target), sides, strict=True):
                num_bytes += int(pc.sum(pc.binary_length(side)).as_py() or 0)
                texts.extend(_decoded(side, room))
            pairs += len(chunk)
            if progress:
                progress("look at the text", pairs, None)
    letters = set("".join(map("".join, sides))) - {" "}
    words = [frozenset(word for text in texts for word in _WORD.findall(text)) for texts in sides]
    return Census(pairs, num_bytes, _tokens(*sides), len(letters), words[0], words[1], pairs == len(sides[0]))


def _decoded(side: pa.LargeBinaryArray, num: int) -> Iterator[str]:
    return (text.decode(errors="replace").strip() for text in side[:num].to_pylist())


def _tokens(source: Sequence[str], target: Sequence[str]) -> float:
    """A pair's mean number of subwords; each side ends with one more."""
    if not source:
        return 0.0
    characters = sum(map(len, source)) + sum(map(len, target))
    unspaced = sum(len(_UNSPACED.findall(text)) for texts in (source, target) for text in texts)
    return 2.0 + ((characters - unspaced) / _LETTERS_A_TOKEN + unspaced / _UNSPACED_A_TOKEN) / len(source)
