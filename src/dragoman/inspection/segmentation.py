"""One side of a trace from a text, or from the ids that a model wrote, which need not be those of its text."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from dragoman.data.subwords import Subwords
from dragoman.data.vocab import EOS
from dragoman.inspection.trace import Tokens


def of_text(subwords: Subwords, text: str) -> Tokens:
    """The tokens a text is cut into."""
    return _tokens(subwords, text, subwords.encode([text]).ids.tolist(), subwords.spans(text))


def of_ids(subwords: Subwords, ids: Sequence[int]) -> Tokens:
    """Tokens as they were written, EOS last, and the text they stand for."""
    text = subwords.decode(ids)
    return _tokens(subwords, text, ids, _spans(subwords, text, ids))


def _tokens(subwords: Subwords, text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> Tokens:
    pieces = tuple(subwords.piece(token) for token in ids)
    return Tokens(text, tuple(ids), pieces, tuple(spans), _words(text, ids, spans))


def _spans(subwords: Subwords, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """What each id adds to the text. The bytes of one character make it only together, and each has all of it."""
    spans: list[tuple[int, int]] = []
    reached = 0
    for end in range(1, len(ids) + 1):
        so_far = subwords.decode(ids[:end])
        if text.startswith(so_far):  # else it ends amid a character
            spans += [(reached, len(so_far))] * (end - len(spans))
            reached = len(so_far)
    return spans


def _words(text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """A piece is of the word that its first character belongs to; white space is of the word after it, if any."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    last = len(ends) - 1
    return tuple(
        -1 if token == EOS else min(bisect_right(ends, start), last)
        for token, (start, _) in zip(ids, spans, strict=True)
    )
