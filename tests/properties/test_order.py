"""What must hold of the order of batches for any corpora, any budget and any seed."""

import itertools
import random
import time
from collections import Counter
from contextlib import closing
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batches import Batch, CorpusFiles, Reader
from dragoman.data.loader import load_batches
from dragoman.data.order import BatchConfig, BatchOrder, BatchRef, CorpusCells, EpochPlan, plan_order, updates
from dragoman.data.shards import write_shard
from dragoman.text.ragged import Ragged

LENGTH = st.integers(1, 12)
SHARD = st.dictionaries(st.tuples(LENGTH, LENGTH), st.integers(1, 9), max_size=4).map(
    lambda counts: np.array([(*cell, count) for cell, count in counts.items()], np.int64).reshape(-1, 3)
)
SHARDS = st.lists(SHARD, max_size=3)
CORPORA = st.lists(SHARDS, min_size=1, max_size=3).filter(lambda corpora: any(map(len, itertools.chain(*corpora))))
CONFIG = st.integers(1, 150).map(lambda tokens: BatchConfig(tokens=tokens))
SEED = st.integers(0, 2**63)
EPOCH = st.integers(0, 10**6)


def whole_epoch(order: BatchOrder, epoch: int) -> list[BatchRef]:
    return [order.batch(epoch, index) for index in range(order.num_batches)]


def seen(batch: BatchRef) -> tuple[int, int, tuple[int, ...]]:
    return batch.corpus, batch.shard, tuple(batch.rows.tolist())


def pairs(batches: list[BatchRef]) -> Counter[tuple[int, int, int]]:
    return Counter((batch.corpus, batch.shard, row) for batch in batches for row in batch.rows.tolist())


@settings(deadline=None)
@given(CORPORA, CONFIG, SEED, EPOCH)
def test_every_pair_comes_exactly_once_an_epoch(
    corpora: list[list[np.ndarray]], config: BatchConfig, seed: int, epoch: int
) -> None:
    order = plan_order([CorpusCells(shards) for shards in corpora], config, seed)
    sizes = {(c, s): int(cells[:, 2].sum()) for c, shards in enumerate(corpora) for s, cells in enumerate(shards)}
    everything = {(*where, row): 1 for where, size in sizes.items() for row in range(size)}
    assert pairs(whole_epoch(order, epoch)) == everything


@settings(deadline=None)
@given(SHARDS.filter(lambda shards: any(map(len, shards))), st.floats(0.05, 4.0), CONFIG, SEED, EPOCH)
def test_a_weight_never_brings_a_pair_less_often_than_its_floor_nor_more_often_than_once_more(
    shards: list[np.ndarray], weight: float, config: BatchConfig, seed: int, epoch: int
) -> None:
    order = plan_order([CorpusCells(shards, weight)], config, seed)
    often = pairs(whole_epoch(order, epoch))
    num_pairs = sum(int(cells[:, 2].sum()) for cells in shards)
    # Rounded to whole batches, a weight may reach the next whole number.
    floor = order.num_batches // order.corpora[0].num_batches
    assert set(often.values()) <= {floor, floor + 1}
    assert len(often) == num_pairs or floor == 0


@settings(deadline=None)
@given(CORPORA, CONFIG, SEED, EPOCH)
def test_a_batch_keeps_to_the_budget_or_is_a_single_pair(
    corpora: list[list[np.ndarray]], config: BatchConfig, seed: int, epoch: int
) -> None:
    order = plan_order([CorpusCells(shards) for shards in corpora], config, seed)
    for batch in whole_epoch(order, epoch):
        cells = corpora[batch.corpus][batch.shard]
        longest = np.repeat(cells[:, :2], cells[:, 2], axis=0)[batch.rows].max(axis=0)
        assert len(batch.rows) * longest.sum() <= config.tokens or len(batch.rows) == 1


@settings(deadline=None)
@given(CORPORA, CONFIG, SEED, st.data())
def test_seeking_finds_what_walking_finds(
    corpora: list[list[np.ndarray]], config: BatchConfig, seed: int, data: st.DataObject
) -> None:
    cells = [CorpusCells(shards) for shards in corpora]
    order = plan_order(cells, config, seed)
    walked = [seen(order.at(index)) for index in range(2 * order.num_batches)]
    index = data.draw(st.integers(0, len(walked) - 1))
    assert seen(plan_order(cells, config, seed).at(index)) == walked[index]


@settings(deadline=None, max_examples=20)
@given(SEED, st.integers(0, 10**6), st.integers(1, 10**6))
def test_another_seed_or_epoch_brings_another_order_of_other_batches(seed: int, epoch: int, more: int) -> None:
    """Two shuffles of 300 rows into 60 batches agree in one batch, in any place, about once in 10**7 times."""
    cells = [CorpusCells([np.array([[3, 4, 300]])])]
    config = BatchConfig(tokens=35)
    here = {seen(batch) for batch in whole_epoch(plan_order(cells, config, seed), epoch)}
    assert len(here) == 60
    assert here.isdisjoint(seen(batch) for batch in whole_epoch(plan_order(cells, config, seed), epoch + more))
    assert here.isdisjoint(seen(batch) for batch in whole_epoch(plan_order(cells, config, seed + more), epoch))


@given(st.integers(1, 40), st.integers(0, 10**9))
def test_any_number_of_ranks_makes_the_same_updates(num_batches: int, start: int) -> None:
    expected = list(range(start * num_batches, (start + 1) * num_batches))
    for num_ranks in (1, 2, 3, 4):
        shares = [next(updates(num_batches, num_ranks, rank, start)) for rank in range(num_ranks)]
        assert sorted(itertools.chain(*shares)) == expected
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


NUM_ROWS, PER_BATCH = 6000, 20


def batch_of_each_row(seed: int, epoch: int) -> np.ndarray:
    """The number of the batch in which each row of one large cell comes."""
    order = plan_order([CorpusCells([np.array([[4, 6, NUM_ROWS]])])], BatchConfig(tokens=10 * PER_BATCH), seed)
    where = np.empty(NUM_ROWS, np.int64)
    for number, batch in enumerate(whole_epoch(order, epoch)):
        where[batch.rows] = number
    return where


def neighbours_together(where: np.ndarray) -> int:
    return int((np.diff(where) == 0).sum())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_neighbours_in_the_corpus_are_strangers_in_the_order(seed: int) -> None:
    """Rows r and r + 1 share a batch of 20 with a probability of 19 / 5999, so 19 of 5999 neighbours do, and by the law
    of Poisson more than 19 + 5 sqrt(19) = 40.8 do once in 100,000 times. The batches of neighbours are a third of
    300 apart, with a standard deviation of 300 / sqrt(18) = 70.7 each, and of 70.7 / sqrt(5999) = 0.9 in the mean.
    """
    where = batch_of_each_row(seed, epoch=0)
    together, apart = 19.0, 300 / 3
    assert neighbours_together(where) < together + 5 * sqrt(together)
    assert abs(np.abs(np.diff(where)).mean() - apart) < 5 * 70.7 / sqrt(NUM_ROWS - 1)
    unshuffled = np.arange(NUM_ROWS) // PER_BATCH
    assert neighbours_together(unshuffled) > together + 5 * sqrt(together)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_when_a_pair_comes_says_nothing_about_the_next_epoch(seed: int) -> None:
    """The correlation of n independent pairs has a standard deviation of 1 / sqrt(n)."""
    epochs = [batch_of_each_row(seed, epoch) for epoch in (0, 1)]
    assert abs(np.corrcoef(*epochs)[0, 1]) < 4.5 / sqrt(NUM_ROWS)
    for where in epochs:
        assert abs(np.corrcoef(where, np.arange(NUM_ROWS))[0, 1]) < 4.5 / sqrt(NUM_ROWS)


def little_reader(folder: Path) -> Reader:
    generator = np.random.default_rng(5)
    shards = []
    for number in range(3):
        sides = []
        for _ in range(2):
            offsets = np.concatenate([[0], np.cumsum(generator.integers(2, 9, 70))])
            sides.append(Ragged(generator.integers(4, 100, offsets[-1], dtype=np.uint16), offsets))
        shards.append(write_shard(folder / f"{number}.arrow", *sides, None, np.arange(70)))
    order = plan_order(
        [CorpusCells([info.cells for info in shards if info.cells is not None])], BatchConfig(tokens=90), seed=8
    )
    return Reader(EpochPlan.of([(0, order)]), [CorpusFiles("little", folder, tuple(shards))])


def content(batch: Batch) -> tuple[object, ...]:
    return batch.index, batch.corpus, batch.lines.tolist(), batch.source.tolist(), batch.target.tolist()


def pause_after(batch: Batch) -> Batch:
    time.sleep(0.02)
    return batch


def test_nothing_depends_on_the_number_of_workers(tmp_path: Path) -> None:
    reader = little_reader(tmp_path)
    chosen = random.Random(4)
    indices = [chosen.randrange(10**6) for _ in range(200)]
    expected = [content(reader(index)) for index in indices]
    for num_workers in (0, 2):
        with closing(load_batches(reader, indices, num_workers)) as batches:
            slow = map(pause_after, batches)  # or this process would make them all while the workers start
            assert [content(batch) for batch in slow] == expected


@settings(deadline=None)
@given(CORPORA, SHARDS.filter(lambda shards: any(map(len, shards))), CONFIG, SEED, st.integers(0, 50))
def test_a_corpus_that_joins_leaves_the_others_where_they_were(
    corpora: list[list[np.ndarray]], added: list[np.ndarray], config: BatchConfig, seed: int, position: int
) -> None:
    cells = [CorpusCells(shards) for shards in corpora]
    before = EpochPlan.of([(0, plan_order(cells, config, seed))])
    epoch = before.next_epoch(position)
    after = EpochPlan.of(
        [(0, plan_order(cells, config, seed)), (epoch, plan_order([*cells, CorpusCells(added)], config, seed))]
    )
    joins = epoch * before.num_batches
    assert position <= joins < position + before.num_batches
    assert [seen(after.at(index)) for index in range(joins)] == [seen(before.at(index)) for index in range(joins)]
    for number in range(2):
        then = [after.at(joins + number * after.num_batches + index) for index in range(after.num_batches)]
        alone = [before.at(joins + number * before.num_batches + index) for index in range(before.num_batches)]
        old = [batch for batch in then if batch.corpus < len(corpora)]
        assert Counter(map(seen, old)) == Counter(map(seen, alone))  # the very batches that it would have had alone
        sizes = [int(shard[:, 2].sum()) for shard in added]
        new = {(len(corpora), shard, row): 1 for shard, size in enumerate(sizes) for row in range(size)}
        assert pairs([batch for batch in then if batch.corpus == len(corpora)]) == new
