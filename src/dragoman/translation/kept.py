"""Text that a model cannot translate and that is kept as it is: unknown scripts, endless words and repetitions.

A model seldom ends a translation of such text before its length limit, so a short text would take as long as hundreds
of sentences. The rules depend on the vocabulary: a vocabulary of characters has long words, and one of bytes no unknown
script. Does not import torch.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.text.ragged import Ragged
from dragoman.text.subwords import Subwords

Reason = Literal["unknown script", "long word", "repetition", "empty translation"]

LONGEST_WORD: Final = 128
"""The most tokens of a word, in a vocabulary whose pieces begin at spaces. Words have one to five tokens, addresses of
web pages up to 60."""

LONGEST_REPETITION: Final = 64
"""The most tokens that repeat those before them. None of 590,000 lines of English and German text reaches it."""

_MOST_UNKNOWN: Final = 0.5
"""The largest share of characters, without spaces, for which the vocabulary has no piece."""
_PERIODS: Final = range(1, 5)
"""The numbers of tokens that are looked for as the repeated unit: letters and words, not sentences."""
_LONG_WORDS: Final = re.compile(rf"\S{{{LONGEST_REPETITION // 4},}}")
"""Words that may have too many tokens: a character has at most four."""


class Part(NamedTuple):
    """A part of a sentence, to translate or to keep."""

    text: str
    ids: list[int]
    """The source ids to translate, with EOS; empty if the text is kept."""
    kept: Reason | None = None
    """The reason why the text is kept; None if it is translated."""

    @property
    def num_tokens(self) -> int:
        """The number of source tokens to translate, with EOS; 0 if the text is kept."""
        return len(self.ids)


def split_kept(texts: Sequence[str], subwords: Subwords) -> list[list[Part]]:
    """Split each cleaned sentence into parts to translate and parts to keep: single words, or the whole sentence."""
    rows = subwords.encode(list(texts))
    num_unknown = _count_unknown(rows, subwords).tolist()
    return [_split(*each, subwords) for each in zip(texts, rows.rows(), num_unknown, strict=True)]


def _split(text: str, ids: list[int], num_unknown: int, subwords: Subwords) -> list[Part]:
    if num_unknown and num_unknown > _MOST_UNKNOWN * sum(map(len, text.split())):
        return [Part(text, [], "unknown script")]
    if len(ids) <= LONGEST_REPETITION:
        return [Part(text, ids)]
    parts, start = list[Part](), 0
    words = list(_LONG_WORDS.finditer(text)) if subwords.separates_words else []
    for word, of_word in zip(words, subwords.encode([word[0] for word in words]).rows(), strict=True):
        if reason := _judge_word(of_word):
            parts += [*_split_rest(text[start : word.start()], subwords), Part(word[0], [], reason)]
            start = word.end()
    if parts:
        return parts + _split_rest(text[start:], subwords)
    return [Part(text, [], "repetition") if _repeats(ids) else Part(text, ids)]


def _split_rest(text: str, subwords: Subwords) -> list[Part]:
    """Split the text beside a long word, which has none itself; return nothing for white space."""
    return split_kept([text.strip()], subwords)[0] if text.strip() else []


def _judge_word(ids: list[int]) -> Reason | None:
    if _repeats(ids):
        return "repetition"
    return "long word" if len(ids) > LONGEST_WORD else None


def _count_unknown(rows: Ragged, subwords: Subwords) -> NDArray[np.int64]:
    """Return the number of characters of each row that are bytes to a vocabulary that covers a script."""
    if not subwords.covers_script or not rows.num_rows:
        return np.zeros(rows.num_rows, np.int64)
    values = subwords.byte_values[rows.ids]
    is_first = (values >= 0) & (values & 0xC0 != 0x80)  # the first byte of a character in UTF-8
    return np.add.reduceat(is_first, rows.offsets[:-1], dtype=np.int64)


def _repeats(ids: list[int]) -> bool:
    """Return True if more than LONGEST_REPETITION tokens in a row equal those one period earlier."""
    if len(ids) <= LONGEST_REPETITION:
        return False
    row = np.array(ids)
    for period in _PERIODS:
        differs = np.concatenate([[True], row[period:] != row[:-period], [True]])
        if np.diff(np.flatnonzero(differs)).max() > LONGEST_REPETITION:
            return True
    return False
