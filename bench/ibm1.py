"""IBM model 1 (Brown et al., 1993): which source word each target word comes from, by expectation maximisation.

The plainest statistical aligner: it knows how often words meet, and nothing of their order. Of equally probable source
words, such as two commas, the one nearest the diagonal is taken, for otherwise repeated words count against the model.
`bench/aligners.py` trains and scores it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.data.alignment import Links

NULL = 0
"""The source word of target words that come from nothing."""
Sentences = Sequence[list[str]]


@dataclass(frozen=True)
class Ibm1:
    """How probable each target word is, given a source word that it was seen with."""

    source: dict[str, int]
    target: dict[str, int]
    pairs: NDArray[np.int64]
    """Of words that were seen together, in order: source x number of target words + target."""
    probabilities: NDArray[np.float64]

    def links(self, source: list[str], target: list[str]) -> Links:
        """Each target word to its most probable source word, unless that is NULL or none is known."""
        from_words = np.array([NULL, *(self.source.get(word, -1) for word in source)])
        to_words = np.array([self.target.get(word, -1) for word in target])
        found = frozenset[tuple[int, int]]()
        for j, word in enumerate(to_words):
            given = self._given(from_words, word)
            best = np.flatnonzero(given == given.max()) - 1
            if word >= 0 and given.max() > 0 and best[0] >= 0:
                off = np.abs((best + 0.5) / len(source) - (j + 0.5) / len(target))
                found |= {(int(best[off.argmin()]), j)}
        return found

    def _given(self, source: NDArray[np.int64], word: int) -> NDArray[np.float64]:
        pair = source * len(self.target) + word
        at = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        return np.where((self.pairs[at] == pair) & (source >= 0), self.probabilities[at], 0.0)


def train(source: Sentences, target: Sentences, rounds: int = 5) -> Ibm1:
    """All the pairs' cells at once, a cell for each target word with each source word and NULL."""
    from_ids, to_ids = number(source, first=NULL + 1), number(target, first=0)
    cells, widths = [], []
    for words, others in zip(source, target, strict=True):
        row = np.array([NULL, *(from_ids[word] for word in words)]) * len(to_ids)
        cells.append(np.add.outer(np.array([to_ids[word] for word in others], np.int64), row).ravel())
        widths.append(np.full(len(others), len(row)))
    width = np.concatenate(widths)
    starts = np.cumsum(width) - width
    pairs, cell = np.unique(np.concatenate(cells), return_inverse=True)
    given = pairs // len(to_ids)
    probabilities = np.ones(len(pairs))
    for _ in range(rounds):
        share = probabilities[cell]
        share /= np.repeat(np.add.reduceat(share, starts), width)
        counts = np.bincount(cell, share)
        probabilities = counts / np.bincount(given, counts)[given]
    return Ibm1(from_ids, to_ids, pairs, probabilities)


def number(sentences: Sentences, first: int) -> dict[str, int]:
    words = dict.fromkeys(word for sentence in sentences for word in sentence)
    return {word: i for i, word in enumerate(words, first)}
