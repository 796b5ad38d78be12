"""IBM model 1 (Brown et al., 1993): the source word of each target word, by expectation maximisation.

The simplest statistical aligner: it counts how often words occur together and ignores their order. Among equally
probable source words, such as two commas, it takes the one nearest the diagonal; otherwise repeated words count against
the model. `bench/aligners.py` trains and scores it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.alignment.links import Links

NULL = 0
"""The id of the empty source word."""
Sentences = Sequence[list[str]]


@dataclass(frozen=True)
class Ibm1:
    """The probability of each target word given a source word that occurred with it."""

    source: dict[str, int]
    target: dict[str, int]
    pairs: NDArray[np.int64]
    """Words that occurred together, sorted: source x number of target words + target."""
    probabilities: NDArray[np.float64]

    def links(self, source: list[str], target: list[str]) -> Links:
        """Link each target word to its most probable source word, unless that is NULL or unknown."""
        from_words = np.array([NULL, *(self.source.get(word, -1) for word in source)])
        to_words = np.array([self.target.get(word, -1) for word in target])
        links = frozenset[tuple[int, int]]()
        for j, word in enumerate(to_words):
            probability = self._probability(from_words, word)
            best = np.flatnonzero(probability == probability.max()) - 1
            if word >= 0 and probability.max() > 0 and best[0] >= 0:
                off = np.abs((best + 0.5) / len(source) - (j + 0.5) / len(target))
                links |= {(int(best[off.argmin()]), j)}
        return links

    def _probability(self, source: NDArray[np.int64], word: int) -> NDArray[np.float64]:
        pair = source * len(self.target) + word
        at = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        return np.where((self.pairs[at] == pair) & (source >= 0), self.probabilities[at], 0.0)


def train(source: Sentences, target: Sentences, rounds: int = 5) -> Ibm1:
    """Estimate over all pairs at once, with a cell for each target word and each source word or NULL."""
    from_ids, to_ids = number(source, first=NULL + 1), number(target, first=0)
    cells, widths = [], []
    for words, others in zip(source, target, strict=True):
        row = np.array([NULL, *(from_ids[word] for word in words)]) * len(to_ids)
        cells.append(np.add.outer(np.array([to_ids[word] for word in others], np.int64), row).ravel())
        widths.append(np.full(len(others), len(row)))
    width = np.concatenate(widths)
    starts = np.cumsum(width) - width
    pairs, cell = np.unique(np.concatenate(cells), return_inverse=True)
    source_word = pairs // len(to_ids)
    probabilities = np.ones(len(pairs))
    for _ in range(rounds):
        share = probabilities[cell]
        share /= np.repeat(np.add.reduceat(share, starts), width)
        counts = np.bincount(cell, share)
        probabilities = counts / np.bincount(source_word, counts)[source_word]
    return Ibm1(from_ids, to_ids, pairs, probabilities)


def number(sentences: Sentences, first: int) -> dict[str, int]:
    words = dict.fromkeys(word for sentence in sentences for word in sentence)
    return {word: i for i, word in enumerate(words, first)}
