"""Where the rows of a shard are cut into batches: a function of its length cells and of the token budget, no more.

Rows stand in the order of their cells, and a batch takes as many as fit: rows x (longest source + longest target), so
padding is paid for, must stay within the budget. A pair that is over the budget alone is a batch of its own. Since all
rows of a cell are alike, cutting goes from cell to cell rather than from row to row, and what is kept of it is four
numbers a cell: no list of batches, let alone of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from dragoman.data.permutation import permute, subkeys

CellCounts = Int64[ndarray, "_ 3"]
"""(source length, target length, pairs) of each cell of a shard, in the order of the file."""

PerCell = Int64[ndarray, " cells"]


@dataclass(frozen=True, eq=False)
class Cutting:
    """The batches of one corpus, shard after shard. Cells and batches are numbered through all its shards."""

    first_cell: Int64[ndarray, " shards_and_one"]
    """Where the cells of each shard begin."""
    first_row: PerCell
    """The row of its shard at which each cell begins."""
    num_rows: PerCell
    first_start: PerCell
    """The row at which the first batch begins that begins in this cell."""
    rows_per_batch: PerCell
    """How many rows of this cell make a batch."""
    first_batch: Int64[ndarray, " cells_and_one"]
    """The number of the first batch that begins in this cell."""
    first_batch_of_shard: Int64[ndarray, " shards_and_one"] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_batch_of_shard", self.first_batch[self.first_cell])

    @property
    def num_batches(self) -> int:
        """Of the whole corpus."""
        return int(self.first_batch[-1])

    @property
    def num_pairs(self) -> int:
        """Of the whole corpus."""
        return int(self.num_rows.sum())

    @property
    def num_shards(self) -> int:
        """Of the corpus."""
        return len(self.first_cell) - 1

    def num_batches_of(self, shard: int) -> int:
        """Of one shard."""
        return int(self.first_batch_of_shard[shard + 1] - self.first_batch_of_shard[shard])

    def span(self, shard: int, batch: int) -> tuple[int, int]:
        """The rows [begin, end) of batch number `batch` of this shard, before rows are shuffled within their cells."""
        number = int(self.first_batch_of_shard[shard]) + batch
        assert self.first_batch_of_shard[shard] <= number < self.first_batch_of_shard[shard + 1]
        if number + 1 < self.first_batch_of_shard[shard + 1]:
            return self._start(number), self._start(number + 1)
        last = self.first_cell[shard + 1] - 1
        return self._start(number), int(self.first_row[last] + self.num_rows[last])

    def rows(self, shard: int, batch: int, key: int) -> Int64[ndarray, " rows"]:
        """The rows of a batch when `key` has shuffled the rows within each cell."""
        begin, end = self.span(shard, batch)
        places = np.arange(begin, end)
        cells = self.first_cell[shard], self.first_cell[shard + 1]
        cell = cells[0] + np.searchsorted(self.first_row[slice(*cells)], places, side="right") - 1
        first = self.first_row[cell]
        rows: ndarray = first + permute(places - first, self.num_rows[cell], subkeys(key, cell - cells[0]))
        return rows

    @property
    def fewest_rows(self) -> int:
        """That make a batch: of the longest pairs."""
        return int(self.rows_per_batch.min(initial=np.iinfo(np.int64).max))

    def longest(self) -> tuple[int, Int64[ndarray, " rows"]]:
        """The shard and the rows of a batch of the longest pairs."""
        cell = int(self.rows_per_batch.argmin())
        number = min(int(self.first_batch[cell]), self.num_batches - 1)
        shard = int(np.searchsorted(self.first_batch_of_shard, number, side="right")) - 1
        begin, end = self.span(shard, number - int(self.first_batch_of_shard[shard]))
        return shard, np.arange(begin, end)

    def _start(self, number: int) -> int:
        # Cells in which no batch begins share their number with the next cell, and "right" passes over them.
        cell = int(np.searchsorted(self.first_batch, number, side="right")) - 1
        return int(self.first_start[cell] + (number - self.first_batch[cell]) * self.rows_per_batch[cell])


def cut(shards: Sequence[CellCounts], budget: int, headroom: float = 1.0) -> Cutting:
    """Cut the shards of one corpus. Lengths are taken `headroom` times: subword sampling makes sentences longer."""
    if budget < 1 or headroom < 1.0:
        raise ValueError(f"a batch needs a budget of 1 token or more and headroom of 1 or more: {budget}, {headroom}")
    first_cell = _running([len(cells) for cells in shards])
    cells = np.concatenate([*shards, np.empty((0, 3), np.int64)])
    num_rows = np.ascontiguousarray(cells[:, 2])
    assert (num_rows > 0).all(), "a cell that holds nothing must not be counted"
    stretched = np.round(cells[:, :2] * headroom, 6)  # 10 * 1.1 is a little more than 11
    lengths = np.ceil(stretched).astype(np.int64)
    rows_per_batch = np.maximum(1, budget // lengths.sum(axis=1))
    taken = _taken(lengths, num_rows, rows_per_batch, first_cell, budget)
    before = _running(num_rows)
    first_row = before[:-1] - np.repeat(before[first_cell[:-1]], np.diff(first_cell))
    num_begun = -((taken - num_rows) // rows_per_batch)  # rounded up
    return Cutting(first_cell, first_row, num_rows, first_row + taken, rows_per_batch, _running(num_begun))


def _taken(
    lengths: Int64[ndarray, "cells 2"], num_rows: PerCell, rows_per_batch: PerCell, first_cell: ndarray, budget: int
) -> PerCell:
    """How many rows of each cell still go into the batch that was begun before it.

    Each cell depends on the one before it, so one cell is done at a time, but in all shards at once.
    """
    order, ends = _side_by_side(first_cell)
    source, target, rows, per_batch = (each[order] for each in (lengths[:, 0], lengths[:, 1], num_rows, rows_per_batch))
    taken = np.zeros(len(order), np.int64)
    # Of each shard's open batch; one that holds nothing is none: there was nothing before it, or it was just full.
    longest_source = longest_target = held = np.zeros(len(first_cell) - 1, np.int64)
    for begin, end in pairwise(ends.tolist()):
        now = slice(begin, end)
        active = slice(end - begin)
        wide_source = np.maximum(longest_source[active], source[now])
        wide_target = np.maximum(longest_target[active], target[now])
        room = budget // (wide_source + wide_target) - held[active]
        fits = np.where(held[active] > 0, np.minimum(np.maximum(room, 0), rows[now]), 0)
        taken[now] = fits
        left = rows[now] - fits
        goes_on = left == 0
        held = np.where(goes_on, held[active] + fits, left % per_batch[now])
        longest_source = np.where(goes_on, wide_source, source[now])
        longest_target = np.where(goes_on, wide_target, target[now])
    back = np.empty_like(taken)
    back[order] = taken
    return back


def _side_by_side(first_cell: ndarray) -> tuple[PerCell, ndarray]:
    """The first cells of all shards, then the second ones, and so on: their numbers, and where each group ends.

    Within a group, shards with more cells come first, so that those that go on are always the first ones.
    """
    num_cells = np.diff(first_cell)
    place = np.empty(len(num_cells), np.int64)
    place[np.argsort(-num_cells, kind="stable")] = np.arange(len(num_cells))
    step = np.arange(first_cell[-1]) - np.repeat(first_cell[:-1], num_cells)
    ends = _running(np.bincount(step))
    order = np.empty(len(step), np.int64)
    order[ends[step] + np.repeat(place, num_cells)] = np.arange(len(step))
    return order, ends


def _running(counts: Sequence[int] | Int64[ndarray, " n"]) -> Int64[ndarray, " n_and_one"]:
    """0, and the sums up to each count."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
