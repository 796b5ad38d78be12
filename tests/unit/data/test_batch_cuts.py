import time
from itertools import pairwise

import numpy as np
import pytest

from dragoman.data.length_cells import BatchCuts, count_cells, cut_batches, sort_into_cells


def lengths_of(seed: int, num_pairs: int, longest: int = 30) -> np.ndarray:
    """Pairs of correlated lengths, in the order of a shard."""
    generator = np.random.default_rng(seed)
    source = generator.integers(1, longest, num_pairs)
    lengths = np.stack([source, np.maximum(1, source + generator.integers(-4, 6, num_pairs))], axis=1)
    return lengths[sort_into_cells(lengths[:, 0], lengths[:, 1])]


def cells(lengths: np.ndarray) -> np.ndarray:
    return count_cells(lengths[:, 0], lengths[:, 1])


def row_by_row(lengths: np.ndarray, budget: int) -> list[tuple[int, int]]:
    """The slow true version: a batch grows by a row for as long as it fits."""
    begins = [0] if len(lengths) else []
    for row in range(1, len(lengths)):
        with_row = lengths[begins[-1] : row + 1]
        if len(with_row) * with_row.max(axis=0).sum() > budget:
            begins.append(row)
    return list(pairwise([*begins, len(lengths)]))


def spans(cutting: BatchCuts, shard: int) -> list[tuple[int, int]]:
    assert cutting.num_batches_of(shard) == cutting.of_shard(shard).num_batches
    return [cutting.of_shard(shard).span(batch) for batch in range(cutting.num_batches_of(shard))]


@pytest.mark.parametrize("budget", [1, 17, 40, 64, 257, 1024, 10**6])
def test_going_from_cell_to_cell_cuts_where_going_row_by_row_does(budget: int) -> None:
    shards = [lengths_of(seed, num_pairs) for seed, num_pairs in enumerate([700, 0, 1, 300, 45])]
    cutting = cut_batches([cells(lengths) for lengths in shards], budget)
    expected = [row_by_row(lengths, budget) for lengths in shards]
    assert [spans(cutting, shard) for shard in range(5)] == expected
    assert cutting.num_batches == sum(map(len, expected))
    assert (cutting.num_shards, cutting.num_pairs) == (5, 1046)


def test_a_batch_may_take_exactly_the_budget_and_no_token_more() -> None:
    one_cell = [np.array([[3, 4, 10]])]
    assert spans(cut_batches(one_cell, 35), 0) == [(0, 5), (5, 10)]
    assert spans(cut_batches(one_cell, 34), 0) == [(0, 4), (4, 8), (8, 10)]


def test_a_pair_over_the_budget_is_a_batch_by_itself() -> None:
    assert spans(cut_batches([np.array([[2, 3, 2], [40, 30, 2], [41, 2, 1]])], 20), 0) == [
        (0, 2),
        (2, 3),
        (3, 4),
        (4, 5),
    ]


def test_padding_on_both_sides_is_paid_for() -> None:
    """Sources up to 5 and targets up to 9 make rows of 14, though no pair has more than 10 tokens."""
    assert spans(cut_batches([np.array([[1, 9, 2], [5, 2, 2]])], 55), 0) == [(0, 3), (3, 4)]
    assert spans(cut_batches([np.array([[1, 9, 2], [5, 2, 2]])], 56), 0) == [(0, 4)]


def test_headroom_stretches_every_length_and_rounds_up() -> None:
    plain = spans(cut_batches([np.array([[5, 6, 7], [11, 7, 9]])], 150), 0)
    nominal = [np.array([[4, 5, 7], [10, 6, 9]])]
    assert spans(cut_batches(nominal, 150, headroom=1.1), 0) == plain
    assert spans(cut_batches(nominal, 150), 0) != plain


def test_a_shard_is_cut_the_same_whatever_stands_beside_it() -> None:
    shards = [cells(lengths_of(seed, 200 + seed)) for seed in range(4)]
    together = cut_batches(shards, 128)
    assert [spans(together, shard) for shard in range(4)] == [spans(cut_batches([alone], 128), 0) for alone in shards]


def test_shards_counted_in_groups_are_cut_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With groups of one shard, of two, and of all; some of the shards are empty."""
    shards = [cells(lengths_of(seed, size)) for seed, size in enumerate((0, 70, 300, 0, 5, 41))]
    at_once = cut_batches(shards, 96)
    for num_cells in (1, 150):
        monkeypatch.setattr("dragoman.data.length_cells._CELLS_AT_ONCE", num_cells)
        in_groups = cut_batches(shards, 96)
        assert np.array_equal(in_groups.first_batch_of_shard, at_once.first_batch_of_shard)
        assert (in_groups.num_pairs, in_groups.longest_cell) == (416, at_once.longest_cell)
        assert np.array_equal(in_groups.longest()[1], at_once.longest()[1])


def test_rows_are_shuffled_within_their_cells_only() -> None:
    lengths = lengths_of(5, 900, longest=6)
    cutting = cut_batches([cells(lengths)], 300)
    rows = np.concatenate([cutting.rows(0, batch, key=77) for batch in range(cutting.num_batches)])
    assert np.array_equal(np.sort(rows), np.arange(900))
    assert np.array_equal(lengths[rows], lengths)
    assert not np.array_equal(rows, np.arange(900))
    other = np.concatenate([cutting.rows(0, batch, key=78) for batch in range(cutting.num_batches)])
    assert not np.array_equal(rows, other)


def test_each_cell_is_shuffled_in_its_own_way() -> None:
    """Forty cells of ten rows: two of them come out alike once in 10! / (40 * 39 / 2) = 4,652 times."""
    cutting = cut_batches([np.array([[length, length, 10] for length in range(1, 41)])], 10**9)
    orders = cutting.rows(0, 0, key=3).reshape(40, 10) % 10
    assert len(np.unique(orders, axis=0)) == 40


@pytest.mark.slow
def test_ten_million_pairs_in_four_thousand_shards_are_cut_in_seconds() -> None:
    """About 0.4 s on a quiet machine; the bound is for a busy one. Row by row would take minutes."""
    kinds = [cells(lengths_of(seed, 2_500, longest=50)) for seed in range(10)]
    begin = time.process_time()
    cutting = cut_batches(kinds * 400, 4096)
    assert time.process_time() - begin < 3.0
    assert cutting.num_pairs == 10_000_000


@pytest.mark.parametrize(("budget", "headroom"), [(0, 1.0), (-5, 1.0), (100, 0.9)])
def test_a_budget_nothing_fits_into_is_refused(budget: int, headroom: float) -> None:
    with pytest.raises(ValueError, match="is below 1"):
        cut_batches([np.array([[2, 3, 1]])], budget, headroom)


def test_a_corpus_without_pairs_has_no_batches() -> None:
    assert cut_batches([], 100).num_batches == 0
    assert cut_batches([np.empty((0, 3), np.int64)], 100).num_batches == 0
