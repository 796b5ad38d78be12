"""The length cells of a prepared folder: an Arrow file with a record batch for each shard.

The cells of a billion pairs take 300 MB. A process reads those of one shard at a time. It does not map the file, since
reading all shards once would add all pages to the memory of the process.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from dragoman.data.length_cells import CellCounts
from dragoman.io.durable import DamageError, FileInfo, Sink, write_durably

_SCHEMA = pa.schema({"cell": pa.list_(pa.int32(), 3)})


def write_cells(path: Path, shards: Iterable[CellCounts]) -> FileInfo:
    """Write the length cells of all shards, in order."""

    def write(sink: Sink) -> None:
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            for cells in shards:
                values = pa.array(np.ascontiguousarray(cells, np.int32).ravel())
                column = pa.FixedSizeListArray.from_arrays(values, 3)
                writer.write_batch(pa.record_batch([column], schema=_SCHEMA))

    return write_durably(path, write)


class CellTable(Sequence[CellCounts]):
    """The length cells of consecutive shards; opened when first read. Pickled by path: a worker process opens it."""

    def __init__(self, path: Path, first: int, num_shards: int) -> None:
        """Read the cells of `num_shards` shards from number `first` on."""
        self._path, self._first, self._num_shards = path, first, num_shards
        self._file: pa.ipc.RecordBatchFileReader | None = None

    def __reduce__(self) -> tuple[type["CellTable"], tuple[Any, ...]]:
        return CellTable, (self._path, self._first, self._num_shards)

    def __len__(self) -> int:
        return self._num_shards

    @overload
    def __getitem__(self, index: int) -> CellCounts: ...
    @overload
    def __getitem__(self, index: slice) -> list[CellCounts]: ...
    def __getitem__(self, index: int | slice) -> CellCounts | list[CellCounts]:
        """Return the cells of a shard."""
        numbers = range(self._num_shards)[index]
        return self._read(numbers) if isinstance(numbers, int) else [self._read(number) for number in numbers]

    def _read(self, shard: int) -> CellCounts:
        try:
            self._file = self._file or pa.ipc.open_file(pa.OSFile(str(self._path)))
            values = self._file.get_batch(self._first + shard).column(0).values
        except (pa.ArrowInvalid, IndexError, OSError) as error:
            raise DamageError(self._path, f"not a valid table of length cells ({error})") from error
        return np.frombuffer(values.buffers()[1] or b"", np.int32)[: len(values)].reshape(-1, 3)
