"""Translate sentences: clean them like training text, split those that are too long, search, and decode tokens to text.

The translation of a sentence does not depend on the other sentences in its batch. pipeline.py handles documents,
streams and protected strings. Imports torch only if the engine is torch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.bundle import Bundle, open_bundle
from dragoman.decoding.engine import Engine, OpenEngine, open_engine
from dragoman.decoding.hypothesis import Hypothesis, Result, Tokens
from dragoman.decoding.options import EngineOptions, SamplingOptions, SearchOptions
from dragoman.io.progress import Progress, ignore_progress
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import Vocab
from dragoman.translation.kept import Reason, split_kept
from dragoman.translation.results import Segment, SentenceTranslation

if TYPE_CHECKING:
    from dragoman.decoding.torch_engine import TorchEngine

LONGEST_SOURCE: Final = 1024
"""The most tokens of a source for a model without a limit, such as a recurrent one."""

_SPACE: Final = re.compile(r"\s+")
_BREAKS: Final = re.compile(r"[\r\n]+")


class Choices(NamedTuple):
    """The hypotheses of a sentence among which a ranker chooses."""

    source: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    log_probabilities: tuple[float, ...]


Ranker = Callable[[Sequence[Choices]], list[list[float]]]
"""Function that returns a new score for each hypothesis of each sentence."""


@dataclass(frozen=True)
class Translator:
    """Translates sentences with an engine, the vocabulary of the model, and search options."""

    engine: Engine
    vocab: Vocab
    options: SearchOptions = field(default_factory=SearchOptions)
    language: str | None = None
    """The code of the source language; None if unknown."""
    sampling: SamplingOptions | None = None
    """Sampling options; None: search for the best translation."""
    opened: OpenEngine | None = None
    """The result of `open_engine` with the reason for its choice; None if the caller passed an engine."""
    protects: bool = False
    """True if the model's translations keep placeholders, addresses, code, emoji and numbers by default."""
    num_samples: int = 1
    """The number of samples of each sentence, each with another seed."""
    ranker: Ranker | None = None
    """Function that scores the hypotheses again; None: the scores of the search."""

    @staticmethod
    def load(
        model: Path | str | Bundle,
        options: EngineOptions | None = None,
        sampling: SamplingOptions | None = None,
        others: Sequence[Bundle] = (),
    ) -> "Translator":
        """Load a translator from a model folder, a training run's folder or an open bundle.

        With `others`, all models translate together, as an ensemble; the search options are those of the first.
        """
        bundle = model if isinstance(model, Bundle) else open_bundle(model)
        options = options or EngineOptions()
        search = SearchOptions.model_validate(bundle.info.search).replace(options.beam_size)
        opened = open_engine(bundle, search, options, sampling is not None, others=others)
        language, protects = bundle.info.source_language, bundle.info.protects
        return Translator(opened.engine, bundle.vocab, opened.search, language, sampling, opened, protects)

    def translate(self, sentences: Sequence[str], progress: Progress = ignore_progress) -> list[str]:
        """Return one translation per sentence, in order; an empty string for a blank sentence."""
        return [sentence.text for sentence in self.sentences(sentences, progress)]

    def sentences(self, sentences: Sequence[str], progress: Progress = ignore_progress) -> list[SentenceTranslation]:
        """Translate sentences, and return the scored hypotheses of each sentence."""
        return self.collect(self.submit(sentences), progress)

    def submit(self, sentences: Sequence[str]) -> "Submission":
        """Start translating, in the background if the engine supports it; equal sentences are translated once."""
        cleaned = {sentence: clean_line(sentence) for sentence in dict.fromkeys(sentences)}
        parts = dict(zip(cleaned, split_kept(list(cleaned.values()), self.vocab.source), strict=True))
        pieces: dict[str, list[str]] = {}
        rows: dict[str, list[int]] = {}
        kept: dict[str, Reason] = {}
        for sentence, some in parts.items():
            pieces[sentence] = []
            for part in some:
                if part.kept:
                    kept[part.text] = part.kept
                    pieces[sentence].append(part.text)
                else:
                    fitting = self.cut(part.text, part.ids)
                    rows |= fitting
                    pieces[sentence] += [piece for piece, _ in fitting]
        sources = [piece for piece in rows if piece not in kept]
        ids = [rows[piece] for piece in sources]
        if self.sampling is None:
            results = self.engine.submit(ids, self.options)
        else:
            from dragoman.decoding.torch_engine import TorchEngine  # no other engine samples

            assert isinstance(self.engine, TorchEngine)
            results = _sample(self.engine, ids, self.options, self.sampling, self.num_samples)
        return Submission(sentences, pieces, kept, sources, results)

    def collect(self, submission: "Submission", progress: Progress = ignore_progress) -> list[SentenceTranslation]:
        """Wait for the translations of submitted sentences, and return them in order."""
        found: dict[str, tuple[Hypothesis, ...]] = {}
        for done, (index, result) in enumerate(submission.results, 1):
            found[submission.sources[index]] = result.hypotheses
            progress("translate", done, len(submission.sources))
        if self.ranker:
            found = self._rank(found, self.ranker)
        segments = {source: Segment.keep(source, reason) for source, reason in submission.kept.items()}
        for source, hypotheses in found.items():
            segments[source] = Segment(source, hypotheses, self.decode(hypotheses[0].tokens))
        return [
            SentenceTranslation.of(sentence, [segments[piece] for piece in submission.pieces[sentence]], self.decode)
            for sentence in submission.sentences
        ]

    def _rank(self, found: dict[str, tuple[Hypothesis, ...]], ranker: Ranker) -> dict[str, tuple[Hypothesis, ...]]:
        """Return the hypotheses of each source with the scores of the ranker, best first."""
        rows = [
            Choices(
                source,
                tuple(self.decode(each.tokens) for each in some),
                tuple(each.score for each in some),
                tuple(each.log_probability for each in some),
            )
            for source, some in found.items()
        ]
        scored = (
            [replace(hypothesis, score=score) for hypothesis, score in zip(found[row.source], scores, strict=True)]
            for row, scores in zip(rows, ranker(rows), strict=True)
        )
        return {
            row.source: tuple(sorted(some, key=lambda each: -each.score))
            for row, some in zip(rows, scored, strict=True)
        }

    def cut(self, text: str, ids: list[int]) -> list[tuple[str, list[int]]]:
        """Split a text in halves, at white space if possible, until no part is too long for the model.

        `ids` are those of the text; each part comes with its own.
        """
        limit = self.engine.longest or LONGEST_SOURCE
        if not text.strip():
            return []
        if len(text) < 2 or len(ids) <= limit:
            return [(text, ids)]
        middle = len(text) // 2
        spaces = [space.span() for space in _SPACE.finditer(text)]
        end, start = min(spaces, key=lambda span: abs(span[0] - middle), default=(middle, middle))
        halves = [text[:end], text[start:]]
        rows = self.vocab.source.encode(halves).rows()
        return [part for half, row in zip(halves, rows, strict=True) for part in self.cut(half, row)]

    def decode(self, tokens: tuple[int, ...]) -> str:
        """Decode tokens to text on one line; line breaks that the model wrote become spaces."""
        return _BREAKS.sub(" ", self.vocab.target.decode(tokens))


def _sample(
    engine: "TorchEngine", rows: Sequence[Tokens], options: SearchOptions, sampling: SamplingOptions, num: int
) -> Iterator[tuple[int, Result]]:
    """Yield `num` samples for each source: those of as many seeds."""
    if num == 1:
        yield from engine.sample(rows, options, sampling)
        return
    seeds = [sampling.model_copy(update={"seed": sampling.seed + number}) for number in range(num)]
    draws = [dict(engine.sample(rows, options, each)) for each in seeds]
    yield from ((index, Result(tuple(drawn[index].best for drawn in draws))) for index in range(len(rows)))


class Submission(NamedTuple):
    """Sentences that an engine is translating in the background."""

    sentences: Sequence[str]
    pieces: dict[str, list[str]]
    """The parts of each sentence that fit the model, or are kept."""
    kept: dict[str, Reason]
    """The parts that are kept instead of translated, with the reason."""
    sources: list[str]
    """The distinct parts that the engine translates."""
    results: Iterator[tuple[int, Result]]
