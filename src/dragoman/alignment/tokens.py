"""A tokenized text: subword tokens, with the character span and the word of each token."""

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dragoman.text.subwords import Subwords
from dragoman.text.vocab import EOS


@dataclass(frozen=True)
class Tokens:
    """A source or target text and its subword tokens; the last token is EOS."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """The (start, end) characters that each token covers, including a leading space; (n, n) for EOS."""
    words: tuple[int, ...]
    """The index of the whitespace-separated word that each token belongs to; -1 for EOS and a language tag."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_spans(self) -> tuple[tuple[int, int], ...]:
        """The (start, end) characters that each word covers."""
        return tuple(match.span() for match in re.finditer(r"\S+", self.text))

    @staticmethod
    def from_text(subwords: Subwords, text: str) -> "Tokens":
        """Tokenize a text and append EOS."""
        return _tokens(subwords, text, subwords.encode([text]).ids.tolist(), subwords.spans(text))

    @staticmethod
    def from_ids(subwords: Subwords, ids: Sequence[int]) -> "Tokens":
        """Return the tokens for ids that a model generated, including EOS.

        Tokenizing the decoded text could give other ids.
        """
        text = subwords.decode(ids)
        return _tokens(subwords, text, ids, _spans(subwords, text, ids))


def _tokens(subwords: Subwords, text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> Tokens:
    pieces = tuple(subwords.piece(token) for token in ids)
    no_words = {EOS, *subwords.tags.values()}
    return Tokens(text, tuple(ids), pieces, tuple(spans), _words(text, ids, spans, no_words))


def _spans(subwords: Subwords, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the character span of each token; all byte tokens of one character have the span of the character."""
    spans: list[tuple[int, int]] = []
    reached = 0
    for end in range(1, len(ids) + 1):
        so_far = subwords.decode(ids[:end])
        if text.startswith(so_far):  # else it ends amid a character
            spans += [(reached, len(so_far))] * (end - len(spans))
            reached = len(so_far)
    return spans


def _words(
    text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]], no_words: Collection[int]
) -> tuple[int, ...]:
    """Return the index of the word that has each token's first character; whitespace belongs to the next word."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    words = (min(bisect_right(ends, start), len(ends) - 1) for start, _ in spans)
    return tuple(-1 if token in no_words else word for token, word in zip(ids, words, strict=True))
