"""Corpus statistics for planning: number and length of pairs, and the characters and words of a sample."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.io.progress import Progress, ignore_progress

_LINES: Final = 50_000
_FROM_EACH: Final = 5_000
_SAMPLE: Final = 20_000
"""The maximum number of sampled pairs, per chunk and in total."""

_LETTERS_A_TOKEN: Final = 4.2
_UNSPACED_A_TOKEN: Final = 1.6
"""Mean characters per subword, in scripts with spaces between words and in scripts without."""

_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,15}")

IDS: Final = 256 + 4 + 1
"""The number of ids in an empty vocabulary: bytes, special tokens and the space marker."""


@dataclass(frozen=True)
class Census:
    """Corpus statistics: counts over all pairs, and the characters and words of a sample."""

    pairs: int
    num_bytes: int
    """The uncompressed size of source and target, in bytes."""
    tokens: float
    """The estimated mean number of subwords per pair, source and target together."""
    letters: int
    """The number of distinct characters."""
    source_words: frozenset[str]
    target_words: frozenset[str]
    is_whole: bool
    """True if the sample contains all pairs."""

    @property
    def smallest(self) -> int:
        """The minimum vocabulary size that covers all characters, with a margin if the sample lacks some pairs."""
        return IDS + (self.letters if self.is_whole else round(1.2 * self.letters))

    @property
    def largest(self) -> int:
        """A vocabulary size that can always be reached in training: one subword per distinct word."""
        return IDS + self.letters + len(self.source_words | self.target_words)


def take_census(corpora: Sequence[CorpusConfig], progress: Progress = ignore_progress) -> Census:
    """Read the corpora once and return their statistics; raise ValueError if a file cannot be read."""
    pairs = num_bytes = 0
    sides: tuple[list[str], list[str]] = ([], [])
    for corpus in corpora:
        for chunk in read_chunks(corpus, _LINES):
            num_texts = min(_FROM_EACH, _SAMPLE - len(sides[0]))
            for side, texts in zip((chunk.source, chunk.target), sides, strict=True):
                num_bytes += int(pc.sum(pc.binary_length(side)).as_py() or 0)
                texts += [text.decode(errors="replace").strip() for text in side[:num_texts].to_pylist()]
            pairs += len(chunk)
            progress("count the pairs", pairs, None)
    letters = set("".join(map("".join, sides))) - {" "}
    words = [frozenset(word for text in texts for word in _WORD.findall(text)) for texts in sides]
    return Census(pairs, num_bytes, _tokens(*sides), len(letters), words[0], words[1], pairs == len(sides[0]))


def _tokens(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the estimated mean number of subwords per pair, EOS included."""
    if not source:
        return 0.0
    characters = sum(map(len, source)) + sum(map(len, target))
    unspaced = sum(len(_UNSPACED.findall(text)) for texts in (source, target) for text in texts)
    return 2.0 + ((characters - unspaced) / _LETTERS_A_TOKEN + unspaced / _UNSPACED_A_TOKEN) / len(source)
