"""Length cells: pairs of exactly the same lengths, and the order in which the cells of a shard stand.

Cells are ordered by source length, and by target length up and down in turns, like a snake: each cell's neighbours are
alike in both lengths, so a batch that spans a few cells pads little.
"""

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

Cell = tuple[int, int, int]
"""A source length and a target length, in tokens with EOS, and how many pairs have them. Plain: there are millions."""


def snake(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> Int64[ndarray, " n"]:
    """The row numbers in the order of their cells. Within a cell, rows keep the order they came in."""
    _, turn = np.unique(source_lengths, return_inverse=True)
    along = np.where(turn % 2 == 0, target_lengths, -target_lengths)
    return np.lexsort((along, source_lengths)).astype(np.int64, copy=False)


def count_cells(source_lengths: Int64[ndarray, " n"], target_lengths: Int64[ndarray, " n"]) -> tuple[Cell, ...]:
    """The cells of rows that already stand in order."""
    lengths = np.stack([source_lengths, target_lengths], axis=1)
    is_first = np.append(True, (lengths[1:] != lengths[:-1]).any(axis=1))[: len(lengths)]
    first = np.flatnonzero(is_first)
    counts = np.diff(first, append=len(lengths))
    return tuple((source, target, num) for source, target, num in np.column_stack([lengths[first], counts]).tolist())
