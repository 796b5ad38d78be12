import time
from collections import Counter
from itertools import groupby

import numpy as np
import pytest

from dragoman.data import order as order_module
from dragoman.data.order import BatchConfig, BatchOrder, BatchRef, CorpusCells, plan_order, updates


def cells(seed: int, num_pairs: int) -> np.ndarray:
    """A shard of this many pairs, of lengths from 2 to 8."""
    lengths = np.random.default_rng(seed).integers(2, 9, (num_pairs, 2))
    found, counts = np.unique(lengths, axis=0, return_counts=True)
    return np.column_stack([found, counts])


def corpus(*sizes: int, weight: float = 1.0) -> CorpusCells:
    return CorpusCells([cells(seed, size) for seed, size in enumerate(sizes)], weight)


def epoch_of(order: BatchOrder, epoch: int) -> list[BatchRef]:
    return [order.batch(epoch, index) for index in range(order.num_batches)]


def how_often(batches: list[BatchRef]) -> Counter[tuple[int, int, int]]:
    return Counter((batch.corpus, batch.shard, row) for batch in batches for row in batch.rows.tolist())


CONFIG = BatchConfig(tokens=60)


def test_a_batch_keeps_to_the_budget() -> None:
    shard = cells(3, 500)
    lengths = np.repeat(shard[:, :2], shard[:, 2], axis=0)
    order = plan_order([CorpusCells([shard])], CONFIG, seed=1)
    for batch in epoch_of(order, 0):
        assert len(batch.rows) * lengths[batch.rows].max(axis=0).sum() <= 60


def test_a_corpus_of_weight_one_comes_once_an_epoch() -> None:
    order = plan_order([corpus(120, 0, 45, 7), corpus(33)], CONFIG, seed=1)
    sizes = {(0, 0): 120, (0, 2): 45, (0, 3): 7, (1, 0): 33}
    everything = {(*where, row): 1 for where, size in sizes.items() for row in range(size)}
    for epoch in (0, 1, 5):
        assert how_often(epoch_of(order, epoch)) == everything


def test_a_weight_brings_all_batches_as_often_as_it_says_and_a_part_once_more() -> None:
    order = plan_order([corpus(90, 60, weight=2.25), corpus(110)], CONFIG, seed=1)
    num_batches = order.corpora[0].num_batches
    assert order.counts == (round(2.25 * num_batches), order.corpora[1].num_batches)
    for epoch in range(3):
        often = [times for (which, _, _), times in how_often(epoch_of(order, epoch)).items() if which == 0]
        assert set(often) == {2, 3}
        assert len(often) == 150


def test_a_corpus_of_small_weight_comes_round_before_anything_comes_again() -> None:
    """Every pair is a batch of its own here: a quarter of them in each epoch, all of them in four."""
    order = plan_order([corpus(25, 15, weight=0.25), corpus(10)], BatchConfig(tokens=1), seed=1)
    assert order.counts == (10, 10)
    quarters = [[batch for batch in epoch_of(order, epoch) if batch.corpus == 0] for epoch in range(8)]
    for turn in (quarters[:4], quarters[2:6], quarters[4:]):
        assert Counter(batch.shard for quarter in turn for batch in quarter) == {0: 25, 1: 15}


def test_temperature_makes_a_small_corpus_come_more_often() -> None:
    order = plan_order([corpus(9), corpus(900)], BatchConfig(tokens=60, temperature=2.0), seed=1)
    often = Counter(how_often(epoch_of(order, 0)).values())
    assert often == {10: 9, 1: 900}


def test_corpora_are_mixed_all_through_the_epoch() -> None:
    """In each block of neighbours, a small corpus has its share of places, give or take one at either end."""
    order = plan_order([corpus(3000), corpus(300, 290)], CONFIG, seed=1)
    from_second = np.array([batch.corpus == 1 for batch in epoch_of(order, 0)])
    expected = order_module.BLOCK * order.counts[1] / order.num_batches
    assert len(from_second) > 2 * order_module.BLOCK
    for first in range(0, len(from_second) - order_module.BLOCK, order_module.BLOCK):
        assert abs(from_second[first : first + order_module.BLOCK].sum() - expected) <= 2


def test_batches_go_on_from_epoch_to_epoch() -> None:
    order = plan_order([corpus(80), corpus(50)], CONFIG, seed=1)
    one, other = order.at(2 * order.num_batches + 3), order.batch(2, 3)
    assert (one.corpus, one.shard, one.rows.tolist()) == (other.corpus, other.shard, other.rows.tolist())


def test_shards_come_one_after_the_other_in_an_order_of_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neighbouring places are not shuffled, a shard is left only when all of it has come."""
    monkeypatch.setattr(order_module, "BLOCK", 1)
    order = plan_order([corpus(*[100] * 6)], CONFIG, seed=1)
    walks = [[shard for shard, _ in groupby(batch.shard for batch in epoch_of(order, epoch))] for epoch in range(4)]
    assert all(sorted(walk) == list(range(6)) for walk in walks)
    assert len({tuple(walk) for walk in walks}) == 4


def test_batches_come_in_an_order_of_each_shard_and_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "BLOCK", 1)
    one_row_each = CorpusCells([np.array([[length, length, 1] for length in range(2, 42)])] * 2)
    order = plan_order([one_row_each], BatchConfig(tokens=1), seed=1)
    walks = [[batch.rows.item() for batch in epoch_of(order, epoch)] for epoch in range(2)]
    halves = [walk[half : half + 40] for walk in walks for half in (0, 40)]
    assert all(sorted(half) == list(range(40)) for half in halves)
    assert len({tuple(half) for half in halves}) == 4


def test_the_order_is_the_same_in_every_process_and_release() -> None:
    """Computed once with this code: another result would change every run that is resumed."""
    order = plan_order([CorpusCells([np.array([[2, 3, 5], [3, 3, 40]])], 1.0)], BatchConfig(tokens=24), seed=2017)
    found = [order.batch(1, index).rows.tolist() for index in range(3)]
    assert found == [[44, 30, 8, 23], [9, 27, 6, 32], [0, 13, 34, 38]]


def test_a_batch_of_ten_million_pairs_is_found_at_once() -> None:
    """The order is made in about 0.2 s and a batch found in under a millisecond; the bounds are for a busy machine."""
    kinds = [cells(seed, 10_000) for seed in range(8)]
    begin = time.process_time()
    order = plan_order([CorpusCells(kinds * 125)], BatchConfig(), seed=1)
    order.at(10**9 + 7)
    assert time.process_time() - begin < 1.0
    begin = time.process_time()
    for index in range(10):
        order.at(123_456 + index)
    assert time.process_time() - begin < 0.5


def test_each_rank_takes_every_so_manieth_batch_of_an_update() -> None:
    shares = updates(num_batches=7, num_ranks=3, rank=0, start=4)
    assert [list(next(shares)) for _ in range(2)] == [[28, 31, 34], [35, 38, 41]]


def test_a_rank_without_a_batch_takes_part_with_none() -> None:
    assert list(next(updates(num_batches=2, num_ranks=4, rank=3))) == []


@pytest.mark.parametrize(("num_batches", "num_ranks", "rank", "start"), [(0, 1, 0, 0), (4, 2, 2, 0), (4, 2, 0, -1)])
def test_a_share_that_cannot_be_is_refused(num_batches: int, num_ranks: int, rank: int, start: int) -> None:
    with pytest.raises(AssertionError):
        next(updates(num_batches, num_ranks, rank, start))


@pytest.mark.parametrize(("epoch", "index"), [(0, -1), (0, 10**6), (-1, 0)])
def test_a_batch_that_is_not_there_is_refused(epoch: int, index: int) -> None:
    with pytest.raises(ValueError, match="no batch"):
        plan_order([corpus(50)], CONFIG, seed=1).batch(epoch, index)


def test_no_pairs_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="prepare a corpus"):
        plan_order([corpus(0)], CONFIG, seed=1)
