"""Alignment error rate, precision and recall of word links against gold links (Och and Ney, 2003)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int, Num
from numpy import ndarray

from dragoman.alignment.links import Links, diagonal
from dragoman.alignment.moses import Gold

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, eq=False)
class AlignmentScore:
    """Alignment error rate, precision and recall of a corpus.

    Link counts are summed over sentences, so that long sentences weigh more.
    """

    counts: Int[ndarray, "sentences 4"]
    """|A|, |S|, |A ∩ S| and |A ∩ P| of each sentence, for links A, sure gold links S and possible gold links P."""

    @property
    def aer(self) -> float:
        """The alignment error rate 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), from 0 to 1; lower is better."""
        return float(_aer(self.counts.sum(0)))

    @property
    def precision(self) -> float:
        """The fraction of links that are sure or possible gold links; 0 if there are no links."""
        total, _, _, in_possible = self.counts.sum(0).tolist()
        return in_possible / total if total else 0.0

    @property
    def recall(self) -> float:
        """The fraction of sure gold links that were found."""
        _, sure, in_sure, _ = self.counts.sum(0).tolist()
        return float(in_sure / sure)

    def interval(
        self, level: float = 0.95, draws: Float[ndarray, "draws sentences"] | None = None
    ) -> tuple[float, float]:
        """Return a confidence interval of the alignment error rate by percentile bootstrap over sentences.

        `draws` are those of `draw_sentences`, to make them once for many scores of the same sentences.
        """
        drawn = draw_sentences(len(self.counts)) if draws is None else draws
        low, high = np.quantile(_aer(drawn @ self.counts), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def draw_sentences(num_sentences: int, num_draws: int = 1000, seed: int = 12345) -> Float[ndarray, "draws sentences"]:
    """Return how often each sentence is in each of the bootstrap's draws, which are the same at every call."""
    rows = np.random.default_rng(seed).integers(num_sentences, size=(num_draws, num_sentences))
    return np.stack([np.bincount(row, minlength=num_sentences) for row in rows]).astype(np.float64)


def alignment_score(links: Iterable[Links], gold: Iterable[Gold]) -> AlignmentScore:
    """Score the word links of all sentences against gold links."""
    counts = [
        (len(pair), len(right.sure), len(pair & right.sure), len(pair & right.possible))
        for _, pair, right in zip_numbered(links, gold, ("sentences", "gold lines"))
    ]
    return score_counts(np.array(counts, np.int64).reshape(-1, 4))


def diagonal_score(sources: Sequence[str], targets: Sequence[str], gold: Iterable[Gold]) -> AlignmentScore:
    """Score the diagonal, a baseline that uses no model."""
    pairs = zip(sources, targets, strict=True)
    return alignment_score([diagonal(len(source.split()), len(target.split())) for source, target in pairs], gold)


def score_counts(counts: Int[ndarray, "sentences 4"]) -> AlignmentScore:
    """Return the score for `AlignmentScore.counts`; raise ValueError if there is no sure gold link."""
    if not counts[:, 1].any():
        raise ValueError("the gold alignment has no sure link: add at least one sure link")
    return AlignmentScore(counts)


def zip_numbered(
    first: Iterable[First], second: Iterable[Second], names: tuple[str, str]
) -> Iterator[tuple[int, First, Second]]:
    """Yield (number from 1, first item, second item); raise ValueError if the lengths differ."""
    for number, (left, right) in enumerate(zip_longest(first, second), 1):
        if left is None or right is None:
            short, long = names if left is None else names[::-1]
            raise ValueError(f"there are {number - 1} {short} but more {long}: give the same number of both")
        yield number, left, right


def _aer(counts: Num[ndarray, "*draws 4"]) -> Float[ndarray, "*draws"]:
    total, sure, in_sure, in_possible = np.moveaxis(counts, -1, 0)
    # A draw may hit nothing but sentences without links: there was nothing to get wrong.
    return np.asarray(1.0 - np.where(total + sure, in_sure + in_possible, 1) / np.maximum(total + sure, 1))
