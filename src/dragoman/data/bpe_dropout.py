"""BPE-dropout (Provilkov et al., 2020): byte-pair encoding in which each possible merge is skipped at random."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.data.spelling import Characters, Integers, Pieces, Segments


@dataclass(frozen=True)
class BPEDropout:
    """Merges neighbours in all words at once: one merge in every word, round by round.

    In each round every possible merge of a word is dropped with probability `rate`, and the best one left is made;
    a word with none left is done.
    """

    letters: Integers
    """By character: the id of the piece that is only it, or -1."""
    pairs: Integers
    """Two ids that can merge, as left * size + right, sorted."""
    merged: Integers
    """The id each pair makes. An earlier merge has a lower id: SentencePiece numbers them so."""
    size: int

    @staticmethod
    def of(pieces: Pieces) -> "BPEDropout":
        """Every way in which two pieces make a third."""
        spelled, size = pieces.spelled, len(pieces.scores)
        ways = {
            spelled[piece[:cut]] * size + spelled[piece[cut:]]: token
            for piece, token in spelled.items()
            for cut in range(1, len(piece))
            if piece[:cut] in spelled and piece[cut:] in spelled
        }
        pairs = np.array(sorted(ways), np.int64)
        letters = np.full(0x110000, -1, np.int64)
        for piece, token in spelled.items():
            if len(piece) == 1:
                letters[ord(piece)] = token
        return BPEDropout(letters, pairs, np.array([ways[pair] for pair in pairs.tolist()], np.int64), size)

    def segment(self, characters: Characters, rate: float, random: np.random.Philox) -> Segments:
        """One draw."""
        token, word = self.letters[characters.code], characters.word
        start = np.arange(len(token))
        done: list[Segments] = []
        while len(token):
            left, made = self._merges(token, word, rate, random)
            active = np.zeros(characters.word[-1] + 1, bool)
            active[word[left]] = True
            stays = active[word]
            done.append(Segments(start[~stays], token[~stays]))
            token[left] = made
            stays[left + 1] = False
            start, token, word = start[stays], token[stays], word[stays]
        starts = np.concatenate([start, *(part.start for part in done)])
        tokens = np.concatenate([token, *(part.token for part in done)])
        order = np.argsort(starts)
        return Segments(starts[order], tokens[order])

    def _merges(
        self, token: Integers, word: Integers, rate: float, random: np.random.Philox
    ) -> tuple[Integers, Integers]:
        """For each word that has one: where its best merge stands, and what it makes."""
        left = np.flatnonzero((word[:-1] == word[1:]) & (token[:-1] >= 0) & (token[1:] >= 0))
        pair = token[left] * self.size + token[left + 1]
        where = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        possible = (self.pairs[where] == pair) & ~chance(rate, len(pair), random)
        left, made = left[possible], self.merged[where[possible]]
        if not len(left):
            return left, made
        # The earliest merge of a word is the one that was learned first; of two alike, the one further left.
        first = np.flatnonzero(np.append(True, np.diff(word[left]) > 0))
        best = np.minimum.reduceat(made * len(token) + left, first)
        return best % len(token), best // len(token)


def chance(rate: float, num_draws: int, random: np.random.Philox) -> NDArray[np.bool_]:
    """True with probability `rate`. From the generator's raw bits, which no version of numpy will change."""
    return np.asarray(random.random_raw(num_draws) >> np.uint64(11)) < rate * 2.0**53
