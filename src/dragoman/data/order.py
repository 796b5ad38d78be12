"""Which batch comes when: a pure function of the seed and of the batch's number, computed when asked and never stored.

An epoch is a number of batches known from the length cells alone. Corpora are spread evenly over it. Each corpus is
gone through shard after shard in a shuffled order, each shard batch after batch in a shuffled order, and the rows of a
batch are drawn from their length cells, shuffled too; all of it anew in every epoch. A shard is a random sample of its
corpus, so going shard by shard costs no randomness and keeps reading local. Any batch is found at once: a run that
starts again in the middle of an epoch has nothing to skip.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.cutting import CellCounts, Cutting, cut
from dragoman.data.mixture import locate, shuffled, tempered, times
from dragoman.data.permutation import key, permute, permute_one


class BatchConfig(Config):
    """How pairs are gathered into batches."""

    tokens: int = Field(4096, ge=1, description="the most tokens of a batch: source and target, padding included")
    headroom: float = Field(1.0, ge=1.0, description="how much longer subword sampling may make a sentence")
    temperature: float = Field(1.0, ge=1.0, description="above 1, small corpora come more often")


@dataclass(frozen=True)
class CorpusCells:
    """What the order needs to know of a corpus."""

    shards: Sequence[CellCounts]
    weight: float = 1.0
    """1: every pair comes once an epoch. w: its batches come floor(w) times, and a part of them once more."""


@dataclass(frozen=True)
class BatchRef:
    """A batch by what it is made of."""

    corpus: int
    shard: int
    rows: Int64[ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class Order:
    """The order of all batches of all epochs."""

    corpora: tuple[Cutting, ...]
    counts: tuple[int, ...]
    """How many batches each corpus gives to an epoch."""
    seed: int

    @property
    def num_batches(self) -> int:
        """In an epoch."""
        return sum(self.counts)

    def at(self, index: int) -> BatchRef:
        """The batch of this number, counted through all epochs."""
        return self.batch(*divmod(index, self.num_batches))

    def batch(self, epoch: int, index: int) -> BatchRef:
        """Batch number `index` of an epoch."""
        if epoch < 0 or not 0 <= index < self.num_batches:
            raise ValueError(f"an epoch has batches 0 to {self.num_batches - 1}: no batch {index} in epoch {epoch}")
        place = shuffled(index, self.num_batches, key(self.seed, "places", epoch))
        corpus, position = locate(place, self.counts)
        return self._of_corpus(corpus, epoch, position)

    def longest(self) -> BatchRef:
        """A batch of the longest pairs: that which takes most memory."""
        corpus = min(range(len(self.corpora)), key=lambda number: self.corpora[number].fewest_rows)
        return BatchRef(corpus, *self.corpora[corpus].longest())

    def _of_corpus(self, corpus: int, epoch: int, position: int) -> BatchRef:
        cutting = self.corpora[corpus]
        turn, position = divmod(position, cutting.num_batches)
        whole_turns, part = divmod(self.counts[corpus], cutting.num_batches)
        if turn < whole_turns:
            name = key(self.seed, "turn", corpus, epoch, turn)
        else:  # the part goes on where the last epoch's part ended, so that all of the corpus comes round
            name = key(self.seed, "part", corpus)
            position = (epoch * part + position) % cutting.num_batches
        shard, batch = _walk(cutting, name, position)
        batch = permute_one(batch, cutting.num_batches_of(shard), key(name, "batches", shard))
        rows = cutting.rows(shard, batch, key(self.seed, "rows", corpus, epoch, turn, shard))
        return BatchRef(corpus, shard, rows)


def plan(corpora: Sequence[CorpusCells], config: BatchConfig, seed: int) -> Order:
    """The order of these corpora."""
    cuttings = tuple(cut(corpus.shards, config.tokens, config.headroom) for corpus in corpora)
    sizes = [cutting.num_pairs for cutting in cuttings]
    if not sum(sizes):
        raise ValueError("there is no pair to make a batch of: prepare a corpus that has some")
    weights = tempered([corpus.weight for corpus in corpora], sizes, config.temperature)
    counts = tuple(times(weight, cutting.num_batches) for weight, cutting in zip(weights, cuttings, strict=True))
    return Order(cuttings, counts, seed)


def updates(num_batches: int, num_ranks: int, rank: int, start: int = 0) -> Iterator[range]:
    """The numbers of the batches that this rank takes in each update, from update `start` on, without end.

    `num_batches` make an update, whatever the number of ranks: with more of them, each takes fewer.
    """
    if num_batches < 1 or not 0 <= rank < num_ranks or start < 0:
        raise ValueError(f"no share of {num_batches} batches an update for rank {rank} of {num_ranks} from {start} on")
    for update in count(start):
        yield range(update * num_batches + rank, (update + 1) * num_batches, num_ranks)


def _walk(cutting: Cutting, name: int, position: int) -> tuple[int, int]:
    """The shard in which this position of a walk through all shards falls, and the how manieth batch there it is."""
    shards, ends = _shuffled_shards(cutting, name)
    place = int(np.searchsorted(ends, position, side="right"))
    shard = int(shards[place])
    return shard, position - int(ends[place]) + cutting.num_batches_of(shard)


@lru_cache(maxsize=64)
def _shuffled_shards(cutting: Cutting, name: int) -> tuple[Int64[ndarray, " shards"], Int64[ndarray, " shards"]]:
    """The shards in the order of a walk, and the position at which each ends. Kept, as every batch asks for it."""
    shards = permute(np.arange(cutting.num_shards), cutting.num_shards, key(name, "shards"))
    return shards, np.cumsum(np.diff(cutting.first_batch_of_shard)[shards])
