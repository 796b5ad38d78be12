"""Length cells (groups of pairs with equal source and target lengths), and the division of shards into batches.

Cells are ordered by source length, and by target length in alternating direction, so that neighbouring cells are
similar in both lengths and a batch that spans several cells has little padding. A batch takes as many rows as fit: rows
x (longest source + longest target), padding included, must not exceed the budget. A pair above the budget is a batch
of its own. Since all rows of a cell have the same lengths, the division is computed per cell, not per row, and stores
four numbers per cell instead of a list of batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from dragoman.data.permutation import permute, subkeys

Cell = tuple[int, int, int]
"""A length cell: the source and target lengths in tokens with EOS, and the number of pairs."""


CellCounts = Int64[ndarray, "_ 3"]
"""The length cells of a shard in file order, as rows of (source length, target length, number of pairs)."""

PerCell = Int64[ndarray, " cells"]


def sort_into_cells(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> Int64[ndarray, " n"]:
    """Return the row indices sorted by length cell; rows in the same cell keep their order."""
    _, turn = np.unique(source_lengths, return_inverse=True)
    along = np.where(turn % 2 == 0, target_lengths, -target_lengths)
    return np.lexsort((along, source_lengths)).astype(np.int64, copy=False)


def count_cells(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> tuple[Cell, ...]:
    """Return the length cells of rows that are in the order of `sort_into_cells`."""
    lengths = np.stack([source_lengths, target_lengths], axis=1)
    is_first = np.append(True, (lengths[1:] != lengths[:-1]).any(axis=1))[: len(lengths)]
    first = np.flatnonzero(is_first)
    counts = np.diff(first, append=len(lengths))
    return tuple((source, target, num) for source, target, num in np.column_stack([lengths[first], counts]).tolist())


@dataclass(frozen=True, eq=False)
class BatchCuts:
    """The division of a corpus into batches. Cells and batches are numbered over all shards."""

    first_cell: Int64[ndarray, " shards_and_one"]
    """For each shard, the number of the first cell; then the total number of cells."""
    first_row: PerCell
    """For each cell, the index of the first row within the shard."""
    num_rows: PerCell
    first_start: PerCell
    """For each cell, the first row of the first batch that begins in the cell."""
    rows_per_batch: PerCell
    """For each cell, the number of rows per batch."""
    first_batch: Int64[ndarray, " cells_and_one"]
    """For each cell, the number of the first batch that begins in the cell; then the total number of batches."""
    first_batch_of_shard: Int64[ndarray, " shards_and_one"] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_batch_of_shard", self.first_batch[self.first_cell])

    @property
    def num_batches(self) -> int:
        """The number of batches in the corpus."""
        return int(self.first_batch[-1])

    @property
    def num_pairs(self) -> int:
        """The number of sentence pairs in the corpus."""
        return int(self.num_rows.sum())

    @property
    def num_shards(self) -> int:
        """The number of shards in the corpus."""
        return len(self.first_cell) - 1

    def num_batches_of(self, shard: int) -> int:
        """Return the number of batches in a shard."""
        return int(self.first_batch_of_shard[shard + 1] - self.first_batch_of_shard[shard])

    def span(self, shard: int, batch: int) -> tuple[int, int]:
        """Return the row range [begin, end) of a batch in a shard, before rows are shuffled within cells."""
        number = int(self.first_batch_of_shard[shard]) + batch
        assert self.first_batch_of_shard[shard] <= number < self.first_batch_of_shard[shard + 1]
        if number + 1 < self.first_batch_of_shard[shard + 1]:
            return self._start(number), self._start(number + 1)
        last = self.first_cell[shard + 1] - 1
        return self._start(number), int(self.first_row[last] + self.num_rows[last])

    def rows(self, shard: int, batch: int, key: int) -> Int64[ndarray, " rows"]:
        """Return the row indices of a batch after the rows within each cell are shuffled with `key`."""
        begin, end = self.span(shard, batch)
        places = np.arange(begin, end)
        cells = self.first_cell[shard], self.first_cell[shard + 1]
        cell = cells[0] + np.searchsorted(self.first_row[slice(*cells)], places, side="right") - 1
        first = self.first_row[cell]
        rows: ndarray = first + permute(places - first, self.num_rows[cell], subkeys(key, cell - cells[0]))
        return rows

    @property
    def fewest_rows(self) -> int:
        """The number of rows in a batch of the longest pairs, the smallest of all batches."""
        return int(self.rows_per_batch.min(initial=np.iinfo(np.int64).max))

    def longest(self) -> tuple[int, Int64[ndarray, " rows"]]:
        """Return a batch of the longest pairs: the shard number and the row indices."""
        cell = int(self.rows_per_batch.argmin())
        number = min(int(self.first_batch[cell]), self.num_batches - 1)
        shard = int(np.searchsorted(self.first_batch_of_shard, number, side="right")) - 1
        begin, end = self.span(shard, number - int(self.first_batch_of_shard[shard]))
        return shard, np.arange(begin, end)

    def _start(self, number: int) -> int:
        # Cells in which no batch begins share their number with the next cell, and "right" passes over them.
        cell = int(np.searchsorted(self.first_batch, number, side="right")) - 1
        return int(self.first_start[cell] + (number - self.first_batch[cell]) * self.rows_per_batch[cell])


def cut_batches(shards: Sequence[CellCounts], budget: int, headroom: float = 1.0) -> BatchCuts:
    """Divide the shards of a corpus into batches of at most `budget` tokens, padding included.

    Lengths are multiplied by `headroom`, since subword sampling can lengthen a sentence.
    """
    if budget < 1 or headroom < 1.0:
        raise ValueError(f"batch size {budget} or headroom {headroom} is below 1: give 1 or more")
    first_cell = _cumulate([len(cells) for cells in shards])
    cells = np.concatenate([*shards, np.empty((0, 3), np.int64)])
    num_rows = np.ascontiguousarray(cells[:, 2])
    assert (num_rows > 0).all(), "a length cell must have at least one pair"
    stretched = np.round(cells[:, :2] * headroom, 6)  # 10 * 1.1 is a little more than 11
    lengths = np.ceil(stretched).astype(np.int64)
    rows_per_batch = np.maximum(1, budget // lengths.sum(axis=1))
    taken = _taken(lengths, num_rows, rows_per_batch, first_cell, budget)
    before = _cumulate(num_rows)
    first_row = before[:-1] - np.repeat(before[first_cell[:-1]], np.diff(first_cell))
    num_begun = -((taken - num_rows) // rows_per_batch)  # rounded up
    return BatchCuts(first_cell, first_row, num_rows, first_row + taken, rows_per_batch, _cumulate(num_begun))


def _taken(
    lengths: Int64[ndarray, "cells 2"], num_rows: PerCell, rows_per_batch: PerCell, first_cell: ndarray, budget: int
) -> PerCell:
    """Return, for each cell, the number of rows that belong to a batch begun in an earlier cell.

    Each cell depends on the previous cell, so the computation is sequential over cells, but vectorised over shards.
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
        space = budget // (wide_source + wide_target) - held[active]
        fits = np.where(held[active] > 0, np.minimum(np.maximum(space, 0), rows[now]), 0)
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
    """Return the cell numbers grouped by position within the shard, and the boundaries of the groups.

    The first group has the first cell of every shard, the second group the second cells, and so on. Within a group,
    shards with more cells come first, so that the shards of the next group are a prefix.
    """
    num_cells = np.diff(first_cell)
    place = np.empty(len(num_cells), np.int64)
    place[np.argsort(-num_cells, kind="stable")] = np.arange(len(num_cells))
    step = np.arange(first_cell[-1]) - np.repeat(first_cell[:-1], num_cells)
    ends = _cumulate(np.bincount(step))
    order = np.empty(len(step), np.int64)
    order[ends[step] + np.repeat(place, num_cells)] = np.arange(len(step))
    return order, ends


def _cumulate(counts: Sequence[int] | Int64[ndarray, " n"]) -> Int64[ndarray, " n_and_one"]:
    """Return the cumulative sums of the counts, starting with 0."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
