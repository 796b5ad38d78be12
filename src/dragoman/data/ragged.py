"""Sequences of token ids of different lengths, end to end in one array: no Python object per sentence."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.int32]


class Ragged(NamedTuple):
    """Row i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: Ids
    offsets: NDArray[np.int64]
    """One more than there are rows, from 0 up to the number of ids."""

    @property
    def num_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.offsets)

    def rows(self) -> list[list[int]]:
        """Every row as a plain list."""
        return [self.ids[start:end].tolist() for start, end in pairwise(self.offsets.tolist())]

    def take(self, rows: NDArray[np.integer]) -> "Ragged":
        """The rows of these numbers, in this order."""
        rows = rows.astype(np.int64, copy=False)  # so that the last number of a narrow type has a next one
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # id k of the result stands where it stood in its row, moved by how far the row itself moved
        where = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.ids[where], offsets)

    def padded(self, fill: int) -> NDArray[np.int32]:
        """All rows as one array `[rows, longest]`, filled up at their ends."""
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        rows = np.full((self.num_rows, longest), fill, np.int32)
        rows[np.arange(longest) < lengths[:, None]] = self.ids
        return rows
