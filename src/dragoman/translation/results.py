"""Translation results: texts, sentences and the scored hypotheses of each sentence. Does not import torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import repeat
from math import fsum
from typing import NamedTuple

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import TermUse
from dragoman.translation.kept import Reason

Decode = Callable[[tuple[int, ...]], str]


class TextHypothesis(NamedTuple):
    """One possible translation of a sentence or of a text."""

    text: str
    score: float
    """The log-probability divided by the length penalty, used for ranking; for a text, the sum over its sentences."""
    log_probability: float

    @staticmethod
    def of(hypothesis: Hypothesis, decode: Decode) -> "TextHypothesis":
        """Return an engine's hypothesis with its tokens decoded to text."""
        return TextHypothesis(decode(hypothesis.tokens), hypothesis.score, hypothesis.log_probability)

    @staticmethod
    def join(text: str, parts: Iterable["TextHypothesis"]) -> "TextHypothesis":
        """Combine hypotheses into one with the given text; scores and log-probabilities are summed."""
        parts = list(parts)
        return TextHypothesis(text, fsum(part.score for part in parts), fsum(part.log_probability for part in parts))


class Segment(NamedTuple):
    """A sentence, or a part of a sentence that is too long for the model, with its hypotheses as tokens."""

    source: str
    """The cleaned text that the model read."""
    hypotheses: tuple[Hypothesis, ...]
    """The hypotheses, best first."""
    text: str
    """The best hypothesis as text, on one line."""
    kept: Reason | None = None
    """The reason why the text is the source; None if it is a translation."""

    @staticmethod
    def keep(source: str, reason: Reason) -> "Segment":
        """Return a segment that is kept, with no token and the score 0."""
        return Segment(source, (Hypothesis((), (), 0.0, False, 0.0),), source, reason)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis, without EOS."""
        return self.hypotheses[0].tokens


class SentenceTranslation(NamedTuple):
    """A sentence and its possible translations, best first."""

    source: str
    hypotheses: tuple[TextHypothesis, ...]
    """At most `num_best` translations, best first."""
    segments: tuple[Segment, ...] = ()
    """The engine's results: one segment, or several of a very long sentence. Empty if `protect` assembled the sentence
    from other translations."""
    terms: tuple[TermUse, ...] = ()
    """The terms of a glossary that the sentence contains, used or not, in the order of the source."""

    @property
    def kept(self) -> Reason | None:
        """The reason why the sentence, or a part of it, was kept instead of translated; None if all was translated."""
        return next((segment.kept for segment in self.segments if segment.kept), None)

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

    def without_empty(self) -> "SentenceTranslation":
        """Return the sentence without empty hypotheses; if all are empty, keep the source."""
        if not self.source.strip() or all(hypothesis.text.strip() for hypothesis in self.hypotheses):
            return self
        kept = tuple(hypothesis for hypothesis in self.hypotheses if hypothesis.text.strip())
        if kept:
            return SentenceTranslation(self.source, kept)
        source = TextHypothesis(self.source, 0.0, 0.0)
        return SentenceTranslation(self.source, (source,), (Segment.keep(self.source, "empty translation"),))

    @staticmethod
    def of(source: str, segments: Sequence[Segment], decode: Decode) -> "SentenceTranslation":
        """Join the hypotheses of a sentence's segments: best with best, second with second, and so on."""
        if segments and all(segment.kept for segment in segments):
            return SentenceTranslation(
                source, (TextHypothesis(" ".join(source.splitlines()), 0.0, 0.0),), tuple(segments)
            )
        columns: list[Iterable[TextHypothesis]] = []
        for segment in segments:
            best, *others = segment.hypotheses
            first = TextHypothesis(segment.text, best.score, best.log_probability)  # decoded already
            found = [first, *(TextHypothesis.of(hypothesis, decode) for hypothesis in others)]
            columns.append(repeat(first) if segment.kept else found)
        if len(columns) == 1:
            return SentenceTranslation(source, tuple(columns[0]), tuple(segments))
        rows = [*zip(*columns, strict=False)] or [()]
        joined = (TextHypothesis.join(" ".join(part.text for part in row), row) for row in rows)
        return SentenceTranslation(source, tuple(joined), tuple(segments))


class TextTranslation(NamedTuple):
    """A text and the translations of its sentences."""

    document: TextDocument
    sentences: tuple[SentenceTranslation, ...]

    @property
    def text(self) -> str:
        """The best translation in the layout of the source text."""
        return self.document.join([sentence.text for sentence in self.sentences])

    @property
    def score(self) -> float:
        """The sum of the scores of all sentences; 0 for an empty text."""
        return fsum(sentence.score for sentence in self.sentences)

    @property
    def kept(self) -> Reason | None:
        """The reason why text was kept instead of translated; None if all was translated."""
        return next((sentence.kept for sentence in self.sentences if sentence.kept), None)

    @property
    def terms(self) -> tuple[TermUse, ...]:
        """The terms of a glossary that the text contains, used or not, in the order of the source."""
        return tuple(term for sentence in self.sentences for term in sentence.terms)

    def best(self, num: int) -> Iterator[tuple[TextHypothesis, tuple[int, ...]]]:
        """Yield the `num` best translations of the text, with the index of the hypothesis used for each sentence."""
        for ranks in _best_ranks(self.sentences, num):
            parts = [sentence.hypotheses[rank] for sentence, rank in zip(self.sentences, ranks, strict=True)]
            yield TextHypothesis.join(self.document.join([part.text for part in parts]), parts), ranks


def _best_ranks(sentences: Iterable[SentenceTranslation], num: int) -> list[tuple[int, ...]]:
    """Return the `num` best choices of one hypothesis index per sentence, by total score, best first."""
    kept: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for sentence in sentences:
        longer = (
            (score + hypothesis.score, (*ranks, rank))
            for score, ranks in kept
            for rank, hypothesis in enumerate(sentence.hypotheses)
        )
        kept = nlargest(num, longer, key=lambda choice: choice[0])
    return [ranks for _, ranks in kept]
