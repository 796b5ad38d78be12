"""The order of batches: a pure function of the seed and the batch number, computed on demand and never stored.

The number of batches in an epoch follows from the length cells. Corpora are interleaved evenly. The shards of a corpus,
the batches of a shard and the rows of a length cell are shuffled in every epoch. A shard is a random sample of its
corpus, so reading shard by shard keeps the order random and the reads local. Any batch is computed directly: a run that
resumes in the middle of an epoch has nothing to skip.

Corpora can be added when a run resumes: the current epoch is finished without them, so that earlier batches keep
their numbers. The added corpora are part of every later epoch.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.length_cells import BatchCuts, CellCounts, cut_batches
from dragoman.data.permutation import key, permute, permute_one

BLOCK = 256
"""The number of neighbouring batches that are shuffled as a block, so that corpora do not alternate regularly."""


class BatchConfig(Config):
    """The batch size, and the temperature for sampling corpora."""

    tokens: int = Field(4096, ge=1, description="maximum tokens per batch: source and target, padding included")
    headroom: float = Field(1.0, ge=1.0, description="factor by which subword sampling may lengthen a sentence")
    temperature: float = Field(1.0, ge=1.0, description="sampling temperature; above 1, small corpora are repeated")


class CorpusCells(NamedTuple):
    """The length cells and the weight of a corpus, which determine the order of its batches."""

    shards: Sequence[CellCounts]
    weight: float = 1.0
    """Passes per epoch: with 2.5, an epoch reads all batches twice, and half of the batches once more."""


class BatchRef(NamedTuple):
    """A reference to a batch: corpus number, shard number and row indices."""

    corpus: int
    shard: int
    rows: Int64[ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class BatchOrder:
    """The order of batches in all epochs, for a fixed set of corpora."""

    corpora: tuple[BatchCuts, ...]
    counts: tuple[int, ...]
    """For each corpus, the number of batches per epoch."""
    seed: int

    @property
    def num_batches(self) -> int:
        """The number of batches per epoch."""
        return sum(self.counts)

    def at(self, index: int) -> BatchRef:
        """Return the batch with this number, counted over all epochs."""
        return self.batch(*divmod(index, self.num_batches))

    def batch(self, epoch: int, index: int) -> BatchRef:
        """Return the batch with this number, counted from 0 within the epoch."""
        if epoch < 0 or not 0 <= index < self.num_batches:
            raise ValueError(f"no batch {index} in epoch {epoch}: give epoch >= 0 and 0 <= batch < {self.num_batches}")
        place = shuffle_nearby(index, self.num_batches, key(self.seed, "places", epoch))
        corpus, position = locate(place, self.counts)
        return self._of_corpus(corpus, epoch, position)

    def longest(self) -> BatchRef:
        """Return a batch of the longest pairs, which needs the most memory."""
        corpus = min(range(len(self.corpora)), key=lambda number: self.corpora[number].fewest_rows)
        return BatchRef(corpus, *self.corpora[corpus].longest())

    def _of_corpus(self, corpus: int, epoch: int, position: int) -> BatchRef:
        cuts = self.corpora[corpus]
        turn, position = divmod(position, cuts.num_batches)
        whole_turns, part = divmod(self.counts[corpus], cuts.num_batches)
        if turn < whole_turns:
            name = key(self.seed, "turn", corpus, epoch, turn)
        else:  # the part goes on where the last epoch's part ended, so that all of the corpus comes round
            name = key(self.seed, "part", corpus)
            position = (epoch * part + position) % cuts.num_batches
        shard, batch = _walk(cuts, name, position)
        batch = permute_one(batch, cuts.num_batches_of(shard), key(name, "batches", shard))
        rows = cuts.rows(shard, batch, key(self.seed, "rows", corpus, epoch, turn, shard))
        return BatchRef(corpus, shard, rows)


class EpochRange(NamedTuple):
    """A range of epochs with the same corpora."""

    first_epoch: int
    first_batch: int
    """The number of the first batch, counted over all epochs."""
    order: BatchOrder


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The order of batches in all epochs of a run, including corpora that were added later."""

    ranges: tuple[EpochRange, ...]

    @staticmethod
    def of(orders: Sequence[tuple[int, BatchOrder]]) -> "EpochPlan":
        """Return the plan for tuples of (first epoch, order), sorted by epoch and starting with epoch 0."""
        (epoch, order), *later = orders
        if epoch != 0:
            raise ValueError(f"the first order begins with epoch {epoch}: begin with epoch 0")
        ranges = [EpochRange(0, 0, order)]
        for epoch, order in later:
            last = ranges[-1]
            if epoch < last.first_epoch:
                raise ValueError(f"epoch {epoch} is listed after epoch {last.first_epoch}: sort the orders by epoch")
            first_batch = last.first_batch + (epoch - last.first_epoch) * last.order.num_batches
            ranges.append(EpochRange(epoch, first_batch, order))
        return EpochPlan(tuple(ranges))

    @property
    def num_batches(self) -> int:
        """The number of batches per epoch, added corpora included."""
        return self.ranges[-1].order.num_batches

    def at(self, index: int) -> BatchRef:
        """Return the batch with this number, counted over all epochs."""
        current, epoch, place = self._locate(index)
        return current.order.batch(epoch, place)

    def next_epoch(self, index: int) -> int:
        """Return the first epoch that begins at or after this batch. Corpora can be added from there on."""
        _, epoch, place = self._locate(index)
        return epoch + (place > 0)

    def longest(self) -> BatchRef:
        """Return a batch of the longest pairs, which needs the most memory."""
        return self.ranges[-1].order.longest()

    def _locate(self, index: int) -> tuple[EpochRange, int, int]:
        """Return the epoch range and the epoch that contain a batch, and the number of the batch within the epoch."""
        number = bisect_right([each.first_batch for each in self.ranges], index) - 1
        current = self.ranges[max(number, 0)]
        epochs, place = divmod(index - current.first_batch, current.order.num_batches)
        return current, current.first_epoch + epochs, place


def plan_order(corpora: Sequence[CorpusCells], config: BatchConfig, seed: int) -> BatchOrder:
    """Return the order of batches for the given corpora."""
    cuts = tuple(cut_batches(corpus.shards, config.tokens, config.headroom) for corpus in corpora)
    sizes = [each.num_pairs for each in cuts]
    if not sum(sizes):
        raise ValueError("the corpora have no pairs: prepare a corpus with at least one pair")
    weights = temper_weights([corpus.weight for corpus in corpora], sizes, config.temperature)
    counts = tuple(batches_per_epoch(weight, each.num_batches) for weight, each in zip(weights, cuts, strict=True))
    return BatchOrder(cuts, counts, seed)


def updates(num_batches: int, num_ranks: int, rank: int, start: int = 0) -> Iterator[range]:
    """Yield this rank's batch numbers for each update, endlessly, from update `start` on.

    The `num_batches` batches of an update are divided among the ranks.
    """
    assert 0 <= rank < num_ranks, (rank, num_ranks)
    assert start >= 0, start
    assert num_batches >= 1, num_batches
    for update in itertools.count(start):
        yield range(update * num_batches + rank, (update + 1) * num_batches, num_ranks)


def temper_weights(weights: Sequence[float], sizes: Sequence[int], temperature: float) -> list[float]:
    """Return weights that sample a corpus of n pairs in proportion to n ** (1 / temperature).

    The largest corpus keeps its weight, and smaller corpora repeat more often: temperature 1 changes nothing, infinity
    samples all corpora equally often.
    """
    if temperature < 1.0:
        raise ValueError(f"sampling temperature {temperature} is below 1: give 1 or more")
    largest = max(sizes, default=0)
    return [
        weight * (largest / size) ** (1.0 - 1.0 / temperature) if size else weight
        for weight, size in zip(weights, sizes, strict=True)
    ]


def batches_per_epoch(weight: float, num_batches: int) -> int:
    """Return the number of batches that an epoch reads from a corpus: weight * num_batches, rounded.

    A corpus that has batches gets at least one batch per epoch.
    """
    if not 0.0 < weight < float("inf"):
        raise ValueError(f"corpus weight {weight} is out of range: give a number above 0, or remove the corpus")
    return max(round(Fraction(weight) * num_batches), min(1, num_batches))


def locate(place: int, counts: Sequence[int]) -> tuple[int, int]:
    """Return the corpus at a position in the epoch, and the number of the batch within that corpus.

    Corpora are interleaved evenly: a corpus with a fraction p of all batches gets p * i of the first i positions,
    rounded down. The remaining positions are divided among the other corpora in the same way.
    """
    remaining = sum(counts)
    assert 0 <= place < remaining
    for corpus, count in enumerate(counts):
        before = place * count // remaining
        if (place + 1) * count // remaining > before:
            return corpus, before
        place -= before
        remaining -= count
    raise AssertionError("the last corpus takes all remaining positions")


def shuffle_nearby(place: int, num_places: int, name: int) -> int:
    """Return the new position of a batch after the positions in each block of BLOCK are shuffled."""
    block, within = divmod(place, BLOCK)
    size = min(BLOCK, num_places - block * BLOCK)
    return block * BLOCK + int(_block(size, key(name, block))[within])


@lru_cache(maxsize=4)
def _block(size: int, name: int) -> Int64[ndarray, " size"]:
    """Return the permutation of a block; cached, since every position in the block uses it."""
    return permute(np.arange(size), size, name)


def _walk(cuts: BatchCuts, name: int, position: int) -> tuple[int, int]:
    """Return the shard at a position in the shuffled corpus, and the number of the batch within that shard."""
    shards, ends = _shuffled_shards(cuts, name)
    place = int(np.searchsorted(ends, position, side="right"))
    shard = int(shards[place])
    return shard, position - int(ends[place]) + cuts.num_batches_of(shard)


@lru_cache(maxsize=64)
def _shuffled_shards(cuts: BatchCuts, name: int) -> tuple[Int64[ndarray, " shards"], Int64[ndarray, " shards"]]:
    """Return the shuffled shards, and the position where each shard ends; cached for all batches."""
    shards = permute(np.arange(cuts.num_shards), cuts.num_shards, key(name, "shards"))
    return shards, np.cumsum(np.diff(cuts.first_batch_of_shard)[shards])
