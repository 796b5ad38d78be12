"""Choose among the hypotheses of a sentence by another measure than their probability.

Minimum Bayes risk chooses the hypothesis that is most like the probable ones (Kumar and Byrne, 2004), or most like the
samples (Eikema and Aziz, 2020). A reverse model prefers hypotheses from which the source is probable. Both give each
hypothesis a new score; the highest is the translation. Does not import torch.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Final, NamedTuple

from dragoman.bundle import Bundle
from dragoman.decoding.engine import Engine, open_engine
from dragoman.decoding.options import EngineOptions, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.text.vocab import Vocab
from dragoman.translation.translator import Choices, Translator

ORDER: Final = 6
BETA: Final = 2.0
"""The longest n-grams of characters, and the weight of recall, as in sacreBLEU's chrF2."""


def rerank(
    translator: Translator, mbr: int | None, reverse: Bundle | None, options: EngineOptions | None = None
) -> Translator:
    """Return a translator that chooses among `mbr` hypotheses by their risk, or among those of its beam by `reverse`.

    With sampling, the hypotheses are `mbr` samples.
    """
    search = translator.options
    if mbr is not None:
        if translator.sampling is None:
            search = search.replace(max(mbr, search.beam_size), mbr)
        return replace(
            translator, options=search, num_samples=mbr, ranker=ExpectedChrf(translator.sampling is not None)
        )
    if reverse is None:
        return translator
    source = translator.language
    if len(reverse.info.targets) > 1 and reverse.language is None:
        reverse = reverse.to(source)
    elif source and reverse.info.targets and source not in reverse.info.targets:
        wrong = f"{reverse.folder} translates into {reverse.info.targets[0]}, and the source is {source}"
        raise ValueError(f"{wrong}: give a model of the opposite direction as --rerank")
    opened = open_engine(reverse, SearchOptions(), options)
    ranker = ReverseModel(opened.engine, reverse.vocab, search.penalty)
    return replace(translator, options=search.replace(num_best=search.beam_size), ranker=ranker)


@dataclass(frozen=True)
class ExpectedChrf:
    """A ranker whose score is the mean chrF of a hypothesis with all hypotheses of its sentence as references.

    Hypotheses of a search count by their probabilities, samples by their number.
    """

    is_sampled: bool

    def __call__(self, rows: Sequence[Choices]) -> list[list[float]]:
        return [self._expect(row) for row in rows]

    def _expect(self, row: Choices) -> list[float]:
        best = max(row.log_probabilities)
        weights = dict.fromkeys(row.texts, 0.0)
        for text, log_probability in zip(row.texts, row.log_probabilities, strict=True):
            weights[text] += 1.0 if self.is_sampled else exp(log_probability - best)
        grams = {text: _count_ngrams(text) for text in weights}
        total = sum(weights.values())
        expected = {
            text: sum(weight * _chrf(grams[text], grams[other]) for other, weight in weights.items()) / total
            for text in weights
        }
        return [expected[text] for text in row.texts]


class _Grams(NamedTuple):
    """The n-grams of characters of a text, by length, and their numbers."""

    counts: list[Counter[str]]
    totals: list[int]


def _count_ngrams(text: str) -> _Grams:
    letters = "".join(text.split())
    counts = [Counter(letters[i : i + n] for i in range(len(letters) - n + 1)) for n in range(1, ORDER + 1)]
    return _Grams(counts, [max(0, len(letters) - n) for n in range(ORDER)])


def _chrf(hypothesis: _Grams, reference: _Grams) -> float:
    """Return sacreBLEU's chrF2 of a sentence, from n-grams that are counted once for all pairs."""
    precision = recall = 0.0
    order = 0
    columns = (hypothesis.counts, reference.counts, hypothesis.totals, reference.totals)
    for ours, theirs, found, right in zip(*columns, strict=True):
        if found and right:
            matching = sum(min(number, theirs[gram]) for gram, number in ours.items() if gram in theirs)
            precision, recall, order = precision + matching / found, recall + matching / right, order + 1
    if not precision + recall:
        return 0.0
    precision, recall = precision / order, recall / order
    return 100.0 * (1.0 + BETA**2) * precision * recall / (BETA**2 * precision + recall)


@dataclass(frozen=True)
class ReverseModel:
    """A ranker that adds the log-probability of the source given the hypothesis, with the same length penalty."""

    engine: Engine
    vocab: Vocab
    penalty: Penalty

    def __call__(self, rows: Sequence[Choices]) -> list[list[float]]:
        """Return the sum of both scores; the forward scores alone if a text is too long for the reverse model."""
        pairs = [(text, row.source) for row in rows for text in row.texts]
        sources = self.vocab.source.encode([text for text, _ in pairs]).rows()
        targets = [tokens[:-1] for tokens in self.vocab.target.encode([source for _, source in pairs]).rows()]
        longest = self.engine.longest or max(map(len, [*sources, *targets])) + 1
        lengths = [max(len(source), len(target) + 1) for source, target in zip(sources, targets, strict=True)]
        chosen = [index for index, length in enumerate(lengths) if length <= longest]
        found = self.engine.score([sources[index] for index in chosen], [targets[index] for index in chosen])
        reverse = {index: self.penalty.score(sum(each), len(each)) for index, each in zip(chosen, found, strict=True)}
        scores, first = [], 0
        for row in rows:
            places = range(first, first := first + len(row.texts))
            known = all(place in reverse for place in places)
            scores.append(
                [score + (reverse[place] if known else 0.0) for score, place in zip(row.scores, places, strict=True)]
            )
        return scores
