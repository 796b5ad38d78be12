"""Length cells (groups of pairs with equal source and target lengths), and the division of shards into batches.

Cells are ordered by source length, and by target length in alternating direction, so that neighbouring cells are
similar in both lengths and a batch that spans several cells has little padding. A batch takes as many rows as fit: rows
x (longest source + longest target), padding included, must not exceed the budget. A pair above the budget is a batch
of its own. Since all rows of a cell have the same lengths, the division is computed per cell, not per row.

A corpus of a billion pairs has millions of cells. Only the number of batches of each shard is kept in memory; the
division of a shard is computed from its cells when a batch of the shard is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Int64, Integer
from numpy import ndarray

from dragoman.data.permutation import permute, subkeys

CellCounts = Integer[ndarray, "_ 3"]
"""The length cells of a shard in file order, as rows of (source length, target length, number of pairs).

Lengths are in tokens with EOS.
"""

PerCell = Int64[ndarray, " cells"]

_CELLS_AT_ONCE: Final = 8_000_000
"""The number of cells that `cut_batches` has in memory at a time, as far as whole shards allow."""


def sort_into_cells(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> Int64[ndarray, " n"]:
    """Return the row indices sorted by length cell; rows in the same cell keep their order."""
    _, turn = np.unique(source_lengths, return_inverse=True)
    along = np.where(turn % 2 == 0, target_lengths, -target_lengths)
    return np.lexsort((along, source_lengths)).astype(np.int64, copy=False)


def count_cells(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> CellCounts:
    """Return the length cells of rows that are in the order of `sort_into_cells`."""
    lengths = np.stack([source_lengths, target_lengths], axis=1)
    is_first = np.append(True, (lengths[1:] != lengths[:-1]).any(axis=1))[: len(lengths)]
    first = np.flatnonzero(is_first)
    counts = np.diff(first, append=len(lengths))
    return np.column_stack([lengths[first], counts]).astype(np.int32)


class ShardCuts(NamedTuple):
    """The division of a shard into batches: four numbers per cell instead of a list of batches."""

    first_row: PerCell
    """For each cell, the index of the first row within the shard."""
    num_rows: PerCell
    first_start: PerCell
    """For each cell, the first row of the first batch that begins in the cell."""
    rows_per_batch: PerCell
    """For each cell, the number of rows per batch."""
    first_batch: Int64[ndarray, " cells_and_one"]
    """For each cell, the number of the first batch that begins in the cell; then the total number of batches."""

    @property
    def num_batches(self) -> int:
        """The number of batches in the shard."""
        return int(self.first_batch[-1])

    def span(self, batch: int) -> tuple[int, int]:
        """Return the row range [begin, end) of a batch, before rows are shuffled within cells."""
        assert 0 <= batch < self.num_batches
        if batch + 1 < self.num_batches:
            return self._start(batch), self._start(batch + 1)
        return self._start(batch), int(self.first_row[-1] + self.num_rows[-1])

    def rows(self, batch: int, key: int) -> Int64[ndarray, " rows"]:
        """Return the row indices of a batch after the rows within each cell are shuffled with `key`."""
        places = np.arange(*self.span(batch))
        cell = np.searchsorted(self.first_row, places, side="right") - 1
        first = self.first_row[cell]
        rows: ndarray = first + permute(places - first, self.num_rows[cell], subkeys(key, cell))
        return rows

    def _start(self, batch: int) -> int:
        # Cells in which no batch begins share their number with the next cell, and "right" passes over them.
        cell = int(np.searchsorted(self.first_batch, batch, side="right")) - 1
        return int(self.first_start[cell] + (batch - self.first_batch[cell]) * self.rows_per_batch[cell])


@dataclass(frozen=True, eq=False)
class BatchCuts:
    """The division of a corpus into batches. Batches are numbered over all shards."""

    shards: Sequence[CellCounts]
    budget: int
    headroom: float
    num_pairs: int
    """The number of sentence pairs in the corpus."""
    first_batch_of_shard: Int64[ndarray, " shards_and_one"]
    """For each shard, the number of the first batch; then the total number of batches."""
    fewest_rows: int
    """The number of rows in a batch of the longest pairs, the smallest of all batches."""
    longest_cell: tuple[int, int]
    """The first cell with such pairs: the shard number, and the number of the cell in the shard."""

    @property
    def num_batches(self) -> int:
        """The number of batches in the corpus."""
        return int(self.first_batch_of_shard[-1])

    @property
    def num_shards(self) -> int:
        """The number of shards in the corpus."""
        return len(self.first_batch_of_shard) - 1

    def num_batches_of(self, shard: int) -> int:
        """Return the number of batches in a shard."""
        return int(self.first_batch_of_shard[shard + 1] - self.first_batch_of_shard[shard])

    def of_shard(self, shard: int) -> ShardCuts:
        """Return the division of a shard, computed when the shard is first read."""
        return _cut_shard_once(self, shard)

    def rows(self, shard: int, batch: int, key: int) -> Int64[ndarray, " rows"]:
        """Return the row indices of a batch after the rows within each cell are shuffled with `key`."""
        return self.of_shard(shard).rows(batch, key)

    def longest(self) -> tuple[int, Int64[ndarray, " rows"]]:
        """Return a batch of the longest pairs: the shard number and the row indices."""
        shard, cell = self.longest_cell
        number = int(self.first_batch_of_shard[shard] + self.of_shard(shard).first_batch[cell])
        number = min(number, self.num_batches - 1)
        shard = int(np.searchsorted(self.first_batch_of_shard, number, side="right")) - 1
        begin, end = self.of_shard(shard).span(number - int(self.first_batch_of_shard[shard]))
        return shard, np.arange(begin, end)


def cut_batches(shards: Sequence[CellCounts], budget: int, headroom: float = 1.0) -> BatchCuts:
    """Divide the shards of a corpus into batches of at most `budget` tokens, padding included.

    Lengths are multiplied by `headroom`, since subword sampling can lengthen a sentence.
    """
    if budget < 1 or headroom < 1.0:
        raise ValueError(f"batch size {budget} or headroom {headroom} is below 1: give 1 or more")
    num_pairs, num_batches = 0, np.zeros(len(shards), np.int64)
    fewest_rows, longest_cell = np.iinfo(np.int64).max, (0, 0)
    for first, group in _group_shards(shards):
        num_batches[first : first + len(group)] = _count_batches(group, budget, headroom)
        for shard, cells in enumerate(group, first):
            num_pairs += int(cells[:, 2].sum(dtype=np.int64))
            widest = _widths(cells, headroom).max(initial=0)
            if widest and max(1, budget // widest) < fewest_rows:
                rows_per_batch = _measure(cells, budget, headroom)[2]
                fewest_rows, longest_cell = rows_per_batch.min(), (shard, int(rows_per_batch.argmin()))
        group.clear()  # or these cells would stay in memory while the next are read
    return BatchCuts(shards, budget, headroom, num_pairs, _cumulate(num_batches), int(fewest_rows), longest_cell)


def cut_shard(cells: CellCounts, budget: int, headroom: float = 1.0) -> ShardCuts:
    """Divide a shard into batches. `cut_batches` only counts them, by the same rule for many shards at once."""
    lengths, num_rows, rows_per_batch = _measure(cells, budget, headroom)
    longest_source = longest_target = held = 0  # of the open batch; a batch that holds no rows is not open
    taken = []  # for each cell, the number of rows that belong to a batch begun in an earlier cell
    for source, target, rows, per_batch in zip(
        *lengths.T.tolist(), num_rows.tolist(), rows_per_batch.tolist(), strict=True
    ):
        wide_source, wide_target = max(longest_source, source), max(longest_target, target)
        fits = min(max(budget // (wide_source + wide_target) - held, 0), rows) if held else 0
        taken.append(fits)
        if fits == rows:
            held, longest_source, longest_target = held + fits, wide_source, wide_target
        else:
            held, longest_source, longest_target = (rows - fits) % per_batch, source, target
    first_row = _cumulate(num_rows)[:-1]
    num_begun = -((np.array(taken, np.int64) - num_rows) // rows_per_batch)  # rounded up
    return ShardCuts(first_row, num_rows, first_row + np.array(taken, np.int64), rows_per_batch, _cumulate(num_begun))


@lru_cache(maxsize=64)
def _cut_shard_once(cuts: BatchCuts, shard: int) -> ShardCuts:
    """Divide a shard into batches; cached for all batches of the shard."""
    return cut_shard(cuts.shards[shard], cuts.budget, cuts.headroom)


def _group_shards(shards: Sequence[CellCounts]) -> Iterator[tuple[int, list[CellCounts]]]:
    """Yield groups of consecutive shards with about _CELLS_AT_ONCE cells, and the number of their first shard."""
    group: list[CellCounts] = []
    num_cells = 0
    for shard, cells in enumerate(shards):
        group.append(cells)
        num_cells += len(cells)
        if num_cells >= _CELLS_AT_ONCE or (num_cells and shard + 1 == len(shards)):
            yield shard + 1 - len(group), group
            group, num_cells = [], 0


def _measure(cells: CellCounts, budget: int, headroom: float) -> tuple[Int64[ndarray, "cells 2"], PerCell, PerCell]:
    """Return the lengths with headroom, the number of rows, and the number of rows per batch of each cell."""
    lengths = _with_headroom(cells, headroom).astype(np.int64)
    return lengths, cells[:, 2].astype(np.int64), np.maximum(1, budget // (lengths[:, 0] + lengths[:, 1]))


def _widths(cells: CellCounts, headroom: float) -> Integer[ndarray, " cells"]:
    """Return the source length plus the target length of each cell, with headroom."""
    lengths = _with_headroom(cells, headroom)
    widths: Integer[ndarray, " cells"] = lengths[:, 0] + lengths[:, 1]
    return widths


def _with_headroom(cells: CellCounts, headroom: float) -> Integer[ndarray, "cells 2"]:
    if headroom == 1.0:
        return cells[:, :2]
    return np.ceil(np.round(cells[:, :2] * headroom, 6)).astype(np.int64)  # 10 * 1.1 is a little more than 11


def _count_batches(shards: Sequence[CellCounts], budget: int, headroom: float) -> Int64[ndarray, " shards"]:
    """Return the number of batches of each shard.

    Each cell depends on the previous cell, so the computation is sequential over cells, but vectorised over shards.
    """
    num_cells = np.array([len(cells) for cells in shards])
    place = np.empty(len(shards), np.int64)  # shards with more cells first: those with an i-th cell are a prefix
    place[np.argsort(-num_cells, kind="stable")] = np.arange(len(shards))
    # The first cell of every shard, then the second cell of every shard that has one, and so on.
    ends = _cumulate(len(shards) - np.cumsum(np.bincount(num_cells))[:-1])
    small: np.dtype[Any] = np.dtype("int32" if budget < 1 << 30 else "int64")
    source, target, rows = (np.empty(int(ends[-1]), small) for _ in range(3))
    for cells, first in zip(shards, place.tolist(), strict=True):
        lengths, at = _with_headroom(cells, headroom), ends[: len(cells)] + first
        source[at], target[at], rows[at] = lengths[:, 0], lengths[:, 1], cells[:, 2]
    assert rows.min(initial=1) > 0, "a length cell must have at least one pair"
    num_batches = np.zeros(len(shards), np.int64)
    # Of each shard's open batch; a batch that holds no rows is not open.
    longest_source = longest_target = held = np.zeros(len(shards), small)
    for begin, end in pairwise(ends.tolist()):
        of_source, of_target, num_rows = source[begin:end], target[begin:end], rows[begin:end]
        held = held[: end - begin]
        wide_source = np.maximum(longest_source[: end - begin], of_source)
        wide_target = np.maximum(longest_target[: end - begin], of_target)
        space = np.maximum(_divide(budget, wide_source + wide_target) - held, 0)
        fits = np.minimum(space, num_rows) * (held > 0)
        left, per_batch = num_rows - fits, np.maximum(_divide(budget, of_source + of_target), 1)
        full = _divide(left, per_batch)
        left -= full * per_batch
        num_batches[: end - begin] += full + (left > 0)
        goes_on = fits == num_rows
        held = np.where(goes_on, held + fits, left)
        longest_source = np.where(goes_on, wide_source, of_source)
        longest_target = np.where(goes_on, wide_target, of_target)
    return num_batches[place]


def _divide(numbers: int | Integer[ndarray, " n"], by: Integer[ndarray, " n"]) -> Integer[ndarray, " n"]:
    """Return numbers // by: floating-point division is faster, and exact for numbers below 2**50."""
    return (numbers / by).astype(by.dtype)


def _cumulate(counts: Sequence[int] | Int64[ndarray, " n"]) -> Int64[ndarray, " n_and_one"]:
    """Return the cumulative sums of the counts, starting with 0."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
