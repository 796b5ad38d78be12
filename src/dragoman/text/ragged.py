"""Ragged arrays: sequences of token ids of different lengths, concatenated in a single array."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.int32]


class Ragged(NamedTuple):
    """A ragged array of token ids: row i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: Ids
    offsets: NDArray[np.int64]
    """The start of each row in `ids`, followed by the total number of ids."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens in each row."""
        return np.diff(self.offsets)

    def rows(self) -> list[list[int]]:
        """Return every row as a list of integers."""
        return [self.ids[start:end].tolist() for start, end in pairwise(self.offsets.tolist())]

    def take(self, rows: NDArray[np.integer]) -> "Ragged":
        """Return the rows with the given indices, in the given order."""
        rows = rows.astype(np.int64, copy=False)  # so that the last number of a narrow type has a next one
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # id k of the result stands where it stood in its row, moved by how far the row itself moved
        where = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.ids[where], offsets)

    def padded(self, fill: int) -> NDArray[np.int32]:
        """Return the rows as an array `[num_rows, max_length]`, padded at the end with `fill`."""
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        rows = np.full((self.num_rows, longest), fill, np.int32)
        rows[np.arange(longest) < lengths[:, None]] = self.ids
        return rows
