"""How good links are, against what people said: alignment error rate, precision and recall (Och and Ney, 2003)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from dragoman.data.alignment import Links
from dragoman.data.moses import Gold

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, eq=False)
class AlignmentScore:
    """Of a corpus: its sentences are counted together, so long ones weigh more."""

    counts: Int[ndarray, "sentences 4"]
    """Of each sentence: links found, sure links, found that are sure, found that are possible (the sure included)."""

    @property
    def aer(self) -> float:
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); lower is better, from 0 to 1."""
        return float(_aer(self.counts.sum(0)))

    @property
    def precision(self) -> float:
        """Of the links found, the share that is possible; 0 if none was found."""
        found, _, _, in_possible = self.counts.sum(0).tolist()
        return in_possible / found if found else 0.0

    @property
    def recall(self) -> float:
        """Of the sure links, the share that was found."""
        _, sure, in_sure, _ = self.counts.sum(0).tolist()
        return float(in_sure / sure)

    def interval(self, level: float = 0.95, draws: int = 1000, seed: int = 12345) -> tuple[float, float]:
        """Of the error rate, by drawing sentences anew with replacement (percentile bootstrap)."""
        rows = np.random.default_rng(seed).integers(len(self.counts), size=(draws, len(self.counts)))
        drawn = _aer(self.counts[rows].sum(1))
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def alignment_score(found: Iterable[Links], gold: Iterable[Gold]) -> AlignmentScore:
    """Scores links, sentence by sentence."""
    pairs = paired(found, gold, ("sentences", "lines of gold"))
    counts = [
        (len(links), len(said.sure), len(links & said.sure), len(links & said.possible)) for _, links, said in pairs
    ]
    return scored(np.array(counts, np.int64).reshape(-1, 4))


def scored(counts: Int[ndarray, "sentences 4"]) -> AlignmentScore:
    """The score, if there is anything to be scored against."""
    if not counts[:, 1].any():
        raise ValueError("the gold alignment has no sure link at all: there is no error rate without one")
    return AlignmentScore(counts)


def paired(
    first: Iterable[First], second: Iterable[Second], names: tuple[str, str]
) -> Iterator[tuple[int, First, Second]]:
    """Both in step, with their number from 1; raises when one ends before the other."""
    for number, (one, other) in enumerate(zip_longest(first, second), 1):
        if one is None or other is None:
            short, long = names if one is None else names[::-1]
            raise ValueError(f"there are {number - 1} {short} but more {long}: they must go line by line")
        yield number, one, other


def _aer(counts: Int[ndarray, "*draws 4"]) -> Float[ndarray, "*draws"]:
    found, sure, in_sure, in_possible = np.moveaxis(counts, -1, 0)
    # A draw may hit nothing but sentences without links: there was nothing to get wrong.
    return np.asarray(1.0 - np.where(found + sure, in_sure + in_possible, 1) / np.maximum(found + sure, 1))
