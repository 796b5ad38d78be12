"""Subword sampling: BPE-dropout (Provilkov et al., 2020) and subword regularisation (Kudo, 2018).

SentencePiece's own sampling is not reproducible: the same seed gives different samples in different processes (0.2.2).
These samplers are vectorised over all words of a batch: texts become an array of characters, split into words, and the
sampled segments become rows of ids.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import numpy as np
import sentencepiece
from numpy.random import Philox
from numpy.typing import NDArray

from dragoman.text.ragged import Ids, Ragged

Integers = NDArray[np.int64]
Scores = NDArray[np.float64]
SPACE: Final = 0x2581
"""The character "▁", SentencePiece's space; it precedes the text, and occurs only as the first character of a piece."""

_UNKNOWN: Final = 10.0
"""Score of an unknown character below the lowest score of a piece, as in SentencePiece."""

_CODES: Final = 0x110000


class Characters(NamedTuple):
    """The characters of several texts, concatenated, with a space before each text."""

    code: Integers
    text: Integers
    """The index of the text of each character."""
    word: Integers
    """The index of the word of each character, over all texts."""
    num_texts: int


class Segments(NamedTuple):
    """A segmentation of characters into subwords, from left to right."""

    start: Integers
    """The index of the first character of each segment."""
    token: Integers
    """The id of each segment, or -1 for an unknown character."""


def split_characters(texts: list[str]) -> Characters:
    """Return the characters of the texts with their text and word indices; an empty text has no characters."""
    lengths = np.array([len(text) + 1 if text else 0 for text in texts], np.int64)
    joined = "".join(f"▁{text}" for text in texts if text)
    code = np.frombuffer(joined.encode("utf-32-le"), np.uint32).astype(np.int64)
    code[code == ord(" ")] = SPACE
    return Characters(code, np.repeat(np.arange(len(texts)), lengths), np.cumsum(code == SPACE) - 1, len(texts))


@dataclass(frozen=True)
class Pieces:
    """The pieces of a SentencePiece model, without control and byte pieces: ids by string, and scores by id."""

    spelled: dict[str, int]
    scores: Scores
    """The score of each piece, by id."""
    bytes: Integers
    """The id of each byte piece, by byte."""
    eos: int

    @staticmethod
    def of(processor: sentencepiece.SentencePieceProcessor) -> "Pieces":
        """Return the pieces of a SentencePiece model."""
        tokens = range(processor.get_piece_size())
        special = {t for t in tokens if processor.is_control(t) or processor.is_unknown(t) or processor.is_byte(t)}
        spelled = {processor.id_to_piece(token): token for token in tokens if token not in special}
        assert not any("▁" in piece[1:] for piece in spelled), "a piece crosses words"
        scores = np.array([processor.get_score(token) for token in tokens])
        first_byte = processor.piece_to_id("<0x00>")
        return Pieces(spelled, scores, np.arange(first_byte, first_byte + 256), processor.eos_id())

    def rows(self, characters: Characters, segments: Segments, dtype: type[np.uint16] | type[np.int32]) -> Ragged:
        """Return the ids of each text with EOS at the end; unknown characters become byte pieces."""
        unknown = segments.token < 0
        code = characters.code[segments.start[unknown]]
        width = np.ones(len(segments.token), np.int64)
        width[unknown] = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)  # of UTF-8
        token = np.repeat(segments.token, width)
        spelled = code.astype(np.uint32).tobytes().decode("utf-32-le").encode()
        token[token < 0] = self.bytes[np.frombuffer(spelled, np.uint8)]
        text = np.repeat(characters.text[segments.start], width)
        ends = np.cumsum(np.bincount(text, minlength=characters.num_texts) + 1)
        ids = np.full(len(token) + characters.num_texts, self.eos, dtype)
        ids[np.arange(len(token)) + text] = token
        return Ragged(cast("Ids", ids), np.append(np.int64(0), ends))


@dataclass(frozen=True)
class BPEDropout:
    """BPE-dropout, vectorised: in each round, every word gets one merge.

    In each round, every possible merge of a word is dropped with probability `rate`, and the best remaining merge is
    applied. A word is complete when no merge remains.
    """

    letters: Integers
    """The id of the single-character piece of each code point, or -1."""
    pairs: Integers
    """Pairs of ids that can be merged, as left * size + right, sorted."""
    merged: Integers
    """The id of each merged pair; SentencePiece gives earlier merges lower ids."""
    size: int

    @staticmethod
    def of(pieces: Pieces) -> "BPEDropout":
        """Return a sampler with the merges of a BPE model: all pairs of pieces that form another piece."""
        spelled, size = pieces.spelled, len(pieces.scores)
        ways = {
            spelled[piece[:cut]] * size + spelled[piece[cut:]]: token
            for piece, token in spelled.items()
            for cut in range(1, len(piece))
            if piece[:cut] in spelled and piece[cut:] in spelled
        }
        pairs = np.array(sorted(ways), np.int64)
        letters = np.full(_CODES, -1, np.int64)
        for piece, token in spelled.items():
            if len(piece) == 1:
                letters[ord(piece)] = token
        return BPEDropout(letters, pairs, np.array([ways[pair] for pair in pairs.tolist()], np.int64), size)

    def segment(self, characters: Characters, rate: float, random: Philox) -> Segments:
        """Return a random segmentation; each merge is dropped with probability `rate`."""
        token, word = self.letters[characters.code], characters.word
        start = np.arange(len(token))
        starts, tokens = [start[:0]], [token[:0]]
        while len(token):
            left, made = self._merges(token, word, rate, random)
            active = np.zeros(characters.word[-1] + 1, bool)
            active[word[left]] = True
            stays = active[word]
            starts.append(start[~stays])
            tokens.append(token[~stays])
            token[left] = made
            stays[left + 1] = False
            start, token, word = start[stays], token[stays], word[stays]
        return _in_order(starts, tokens)

    def _merges(self, token: Integers, word: Integers, rate: float, random: Philox) -> tuple[Integers, Integers]:
        """Return the position and the new id of the best remaining merge, for each word with a merge."""
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


def chance(rate: float, num_draws: int, random: Philox) -> NDArray[np.bool_]:
    """Return random booleans that are True with probability `rate`, the same in every version of NumPy."""
    return np.asarray(random.random_raw(num_draws) >> np.uint64(11)) < rate * 2.0**53


@dataclass(frozen=True)
class UnigramSampling:
    """Sampling of segmentations from a unigram model, by forward filtering and backward sampling.

    The forward pass sums over all segmentations of each word; the backward pass samples a segmentation.
    """

    edges: Integers
    """The edges of the trie of all pieces, as node * 0x110000 + character, sorted."""
    child: Integers
    """The child node of each edge."""
    token: Integers
    """The id of the piece of each node, or -1."""
    scores: Scores
    longest: int
    """The number of characters of the longest piece."""

    @staticmethod
    def of(pieces: Pieces) -> "UnigramSampling":
        """Return a sampler with a trie of all pieces."""
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

    def segment(self, characters: Characters, rate: float, random: Philox) -> Segments:
        """Return a random segmentation; a segmentation of probability p has weight p ** `rate`."""
        token, score = self._lattice(characters, rate)
        length = np.bincount(characters.word)
        first = np.cumsum(length) - length
        base = first + np.arange(len(first))  # each word has one total more than characters
        total = self._totals(first, base, length, score)
        words, end, back = np.arange(len(first)), length.copy(), np.arange(self.longest)
        starts, tokens = [words[:0]], [words[:0]]
        while len(words):  # a piece of each word at a time, from its end to its start
            # no piece reaches past its word's start (its score is -inf), so what is read there does not count
            before = total[np.maximum(base[words, None] + end[:, None] - 1 - back, 0)]
            last = first[words] + end - 1
            chosen = _choose(np.exp(before + score[last] - total[base[words] + end, None]), random)
            end = end - 1 - chosen
            starts.append(first[words] + end)
            tokens.append(token[last, chosen])
            words, end = words[end > 0], end[end > 0]
        return _in_order(starts, tokens)

    def _lattice(self, characters: Characters, rate: float) -> tuple[Integers, Scores]:
        """Return arrays `[characters, longest]`: the id and score of each piece that ends at a character, by length.

        Where no piece fits, the id is -1 and the score -inf.
        """
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

    def _totals(self, first: Integers, base: Integers, length: Integers, score: Scores) -> Scores:
        """Return the forward log-probabilities: for each prefix of each word, the log-sum over all segmentations."""
        total = np.full(len(score) + len(first), -np.inf)
        total[base] = 0.0
        for end in range(1, int(length.max(initial=0)) + 1):
            words = np.flatnonzero(length >= end)
            reach = min(end, self.longest)
            before = total[base[words, None] + end - 1 - np.arange(reach)]
            total[base[words] + end] = np.logaddexp.reduce(before + score[first[words] + end - 1, :reach], axis=1)
        return total


def _choose(likely: Scores, random: Philox) -> Integers:
    """Return a random column index for each row, with probabilities proportional to the entries."""
    cumulated = np.cumsum(likely, axis=1)
    drawn = (np.asarray(random.random_raw(len(likely))) >> np.uint64(11)) * 2.0**-53
    return np.asarray((cumulated > drawn[:, None] * cumulated[:, -1:]).argmax(axis=1))


def _in_order(starts: list[Integers], tokens: list[Integers]) -> Segments:
    """Return the segments sorted by start position."""
    start = np.concatenate(starts)
    order = np.argsort(start)
    return Segments(start[order], np.concatenate(tokens)[order])
