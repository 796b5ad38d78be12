"""What comes back for a text: its translation, and for each sentence what was written, with scores. No torch here."""

from collections.abc import Callable, Iterable, Sequence
from math import fsum
from typing import NamedTuple

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.translator import Part


class Written(NamedTuple):
    """One translation of a sentence."""

    text: str
    score: float
    """What it was ranked by: its log-probability under the length penalty."""
    log_probability: float
    """The model's, of the whole of it."""


class Sentence(NamedTuple):
    """A sentence and its translations."""

    source: str
    hypotheses: tuple[Written, ...]
    """Best first: as many as were asked for, if so many were found."""
    parts: tuple[Part, ...] = ()
    """The same in tokens, as the engine gave it: one part, or those that a very long sentence had to be cut into. None
    if it was put together in another way."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        return self.hypotheses[0].score

    @property
    def log_probability(self) -> float:
        return self.hypotheses[0].log_probability


class Translated(NamedTuple):
    """A text and what it is made of."""

    text: str
    """The translation, laid out as the text was."""
    sentences: tuple[Sentence, ...]


def sentence(source: str, parts: Sequence[Part], decode: Callable[[tuple[int, ...]], str]) -> Sentence:
    """What an engine has found for a sentence, or for the parts it had to be cut into, as text."""
    columns = [_translations(part, decode) for part in parts]
    if len(columns) == 1:
        return Sentence(source, tuple(columns[0]), tuple(parts))
    rows = [*zip(*columns, strict=False)] or [()]
    texts = [" ".join(part.text for part in row) for row in rows]
    return Sentence(source, tuple(map(together, texts, rows)), tuple(parts))


def _translations(part: Part, decode: Callable[[tuple[int, ...]], str]) -> list[Written]:
    best, *others = part.hypotheses
    first = Written(part.text, best.score, best.log_probability)
    return [first, *(written(other, decode) for other in others)]


def written(hypothesis: Hypothesis, decode: Callable[[tuple[int, ...]], str]) -> Written:
    """A hypothesis as text."""
    return Written(decode(hypothesis.tokens), hypothesis.score, hypothesis.log_probability)


def together(text: str, parts: Iterable[Written]) -> Written:
    """Parts as one. Scores are logarithms: those of parts add up."""
    parts = list(parts)
    return Written(text, fsum(part.score for part in parts), fsum(part.log_probability for part in parts))
