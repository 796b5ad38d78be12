"""Subword regularisation (Kudo, 2018): a segmentation drawn by its probability under a unigram model."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.spelling import Characters, Integers, Pieces, Segments

_UNKNOWN: Final = 10.0
"""How far below the rarest piece a character without one stands, as in SentencePiece."""

_CODES: Final = 0x110000


@dataclass(frozen=True)
class UnigramSampling:
    """Sums over all segmentations from left to right, then draws one from right to left; all words at once."""

    edges: Integers
    """The tree of all pieces: a node and the character that leads on, as node * 0x110000 + character, sorted."""
    child: Integers
    """Where each edge leads."""
    token: Integers
    """By node: the id of the piece that ends there, or -1."""
    scores: NDArray[np.float64]
    longest: int
    """Characters of the longest piece."""

    @staticmethod
    def of(pieces: Pieces) -> "UnigramSampling":
        """Plants the tree."""
        nodes = {"": 0}
        edges: dict[int, int] = {}
        for piece in pieces.spelled:
            for end in range(1, len(piece) + 1):
                edge = nodes[piece[: end - 1]] * _CODES + ord(piece[end - 1])
                edges[edge] = nodes.setdefault(piece[:end], len(nodes))
        keys = np.array(sorted(edges), np.int64)
        token = np.array([pieces.spelled.get(piece, -1) for piece in nodes], np.int64)
        child = np.array([edges[key] for key in keys.tolist()], np.int64)
        ordinary = pieces.scores[list(pieces.spelled.values())]
        scores = np.append(pieces.scores, ordinary.min() - _UNKNOWN)  # id -1 is an unknown character
        return UnigramSampling(keys, child, token, scores, max(map(len, pieces.spelled)))

    def segment(self, characters: Characters, rate: float, random: np.random.Philox) -> Segments:
        """One draw, each segmentation as likely as its probability to the power of `rate`, among all."""
        token, score = self._lattice(characters, rate)
        length = np.bincount(characters.word)
        first = np.cumsum(length) - length
        total = self._totals(first, length, score)
        return self._draw(first, length, token, score, total, random)

    def _lattice(self, characters: Characters, rate: float) -> tuple[Integers, NDArray[np.float64]]:
        """For each character and each length: the piece of that length that ends there, and its score (none: -inf)."""
        num, word = len(characters.code), characters.word
        token = np.full((num, self.longest), -1, np.int64)
        score = np.full((num, self.longest), -np.inf)
        start, node = np.arange(num), np.zeros(num, np.int64)
        for i in range(self.longest):
            inside = start + i < num
            start, node = start[inside], node[inside]
            edge = node * _CODES + characters.code[start + i]
            where = np.minimum(np.searchsorted(self.edges, edge), len(self.edges) - 1)
            on = (self.edges[where] == edge) & (word[start] == word[start + i])
            start, node = start[on], self.child[where[on]]
            ends = self.token[node] >= 0
            token[start[ends] + i, i] = self.token[node[ends]]
            score[start[ends] + i, i] = rate * self.scores[self.token[node[ends]]]
        score[token[:, 0] < 0, 0] = rate * self.scores[-1]
        return token, score

    def _totals(self, first: Integers, length: Integers, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log of the sum over all segmentations of each word's first characters: none, one, two, ...; word by word."""
        base = first + np.arange(len(first))  # each word has one entry more than characters
        total = np.full(len(score) + len(first), -np.inf)
        total[base] = 0.0
        for end in range(1, int(length.max(initial=0)) + 1):
            words = np.flatnonzero(length >= end)
            reach = min(end, self.longest)
            before = total[base[words, None] + end - 1 - np.arange(reach)]
            total[base[words] + end] = np.logaddexp.reduce(before + score[first[words] + end - 1, :reach], axis=1)
        return total

    def _draw(
        self,
        first: Integers,
        length: Integers,
        token: Integers,
        score: NDArray[np.float64],
        total: NDArray[np.float64],
        random: np.random.Philox,
    ) -> Segments:
        """From each word's end to its start, a piece at a time."""
        base = first + np.arange(len(first))
        words, end = np.arange(len(first)), length.copy()
        starts, tokens = [np.arange(0)], [np.arange(0)]
        back = np.arange(self.longest)
        while len(words):
            # no piece reaches past its word's start (its score is -inf), so what is read there does not count
            before = total[np.maximum(base[words, None] + end[:, None] - 1 - back, 0)]
            last = first[words] + end - 1
            likely = np.exp(before + score[last] - total[base[words] + end, None])
            chosen = _choose(likely, random)
            end = end - 1 - chosen
            starts.append(first[words] + end)
            tokens.append(token[last, chosen])
            words, end = words[end > 0], end[end > 0]
        order = np.argsort(np.concatenate(starts))
        return Segments(np.concatenate(starts)[order], np.concatenate(tokens)[order])


def _choose(likely: NDArray[np.float64], random: np.random.Philox) -> Integers:
    """A column for each row, as likely as its entry."""
    cumulated = np.cumsum(likely, axis=1)
    drawn = (np.asarray(random.random_raw(len(likely))) >> np.uint64(11)) * 2.0**-53
    return np.asarray((cumulated > drawn[:, None] * cumulated[:, -1:]).argmax(axis=1))
