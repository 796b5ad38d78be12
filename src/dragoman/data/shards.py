"""A shard: encoded pairs in one Arrow file, in the order of their length cells, read by memory-mapping.

The file is Arrow IPC, uncompressed, with a single record batch, so that its columns are arrays where they lie on disk.
The same pairs make the same bytes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from jaxtyping import Int32, Int64, Integer
from numpy import ndarray
from numpy.typing import NDArray
from pydantic import Field

from dragoman.data.cells import Cell, count_cells, snake
from dragoman.data.durable import DamageError, FileInfo, Sink, write_durably
from dragoman.data.ragged import Ids, Ragged
from dragoman.data.vocab import PAD


class ShardInfo(FileInfo):
    """What the manifest keeps of a shard: enough to plan every batch without opening it."""

    num_pairs: int = Field(ge=0, description="its rows")
    cells: tuple[Cell, ...] = Field(description="(source length, target length, pairs), in the order of the file")


@dataclass(frozen=True)
class Texts:
    """The sentences themselves: what sampling other subwords starts from."""

    source: pa.LargeStringArray
    target: pa.LargeStringArray


@dataclass(frozen=True)
class Rows:
    """Some pairs of a shard."""

    source: Ragged
    target: Ragged


def write_shard(
    path: Path, source: Ragged, target: Ragged, texts: Texts | None, lines: Int64[ndarray, " pairs"]
) -> ShardInfo:
    """Sorts the pairs into cells and writes them. `lines` are their line numbers in the corpus, from 0."""
    _check(source, target, texts, lines)
    order = snake(source.lengths, target.lengths)
    source, target = source.take(order), target.take(order)
    columns = {"source": _lists(source), "target": _lists(target), "line": pa.array(lines[order])}
    if texts is not None:
        rows = pa.array(order)
        columns |= {"source_text": texts.source.take(rows), "target_text": texts.target.take(rows)}
    batch = pa.record_batch(columns)
    file = write_durably(path, lambda sink: _write(batch, sink))
    cells = count_cells(source.lengths, target.lengths)
    return ShardInfo(**file.model_dump(), num_pairs=len(lines), cells=cells)


class Shard:
    """A shard opened by memory-mapping: opening reads nothing but the footer, and a row costs its own pages."""

    def __init__(self, path: Path) -> None:
        batch = _map(path)
        self.path = path
        self.num_pairs: int = batch.num_rows
        self.has_texts = "source_text" in batch.schema.names
        self._batch = batch
        self._source = _ragged(batch.column("source"))
        self._target = _ragged(batch.column("target"))
        self._lines = cast("NDArray[np.int64]", _view(batch.column("line")))

    def rows(self, indices: Integer[ndarray, " rows"]) -> Rows:
        """The ids of these pairs, one after the other."""
        return Rows(self._source.take(indices), self._target.take(indices))

    def padded(
        self, indices: Integer[ndarray, " rows"]
    ) -> tuple[Int32[ndarray, "rows source"], Int32[ndarray, "rows target"]]:
        """The ids of these pairs as two arrays, each filled up with PAD to its longest row."""
        rows = self.rows(indices)
        return rows.source.padded(PAD), rows.target.padded(PAD)

    def lines(self, indices: Integer[ndarray, " rows"]) -> Int64[ndarray, " rows"]:
        """Where these pairs stood in their corpus."""
        lines: NDArray[np.int64] = self._lines[indices]
        return lines

    def texts(self, indices: Integer[ndarray, " rows"]) -> Texts:
        """The sentences of these pairs."""
        if not self.has_texts:
            raise ValueError(f"{self.path} holds no text: prepare the corpus for subword sampling")
        rows = pa.array(indices)
        return Texts(self._batch.column("source_text").take(rows), self._batch.column("target_text").take(rows))


def _check(source: Ragged, target: Ragged, texts: Texts | None, lines: NDArray[np.int64]) -> None:
    counts = [source.num_rows, target.num_rows, len(lines)]
    if texts is not None:
        counts += [len(texts.source), len(texts.target)]
    if len(set(counts)) > 1:
        raise ValueError(f"a shard needs the same number of sources, targets, lines and texts, not {counts}")


def _lists(rows: Ragged) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(rows.offsets), pa.array(rows.ids))


def _write(batch: pa.RecordBatch, sink: Sink) -> None:
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _map(path: Path) -> pa.RecordBatch:
    try:
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        if file.num_record_batches != 1:
            raise DamageError(path, f"a shard is one record batch, not {file.num_record_batches}")
        return file.get_batch(0)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamageError(path, f"it cannot be read as a shard ({error})") from error


def _ragged(column: pa.LargeListArray) -> Ragged:
    """A view of the file, not a copy."""
    ids = cast("Ids", _view(column.values))
    return Ragged(ids, cast("NDArray[np.int64]", _view(column.offsets)))


def _view(column: pa.Array) -> NDArray[np.integer]:
    """Not `to_numpy`, which imports pandas where it is installed, and that takes longer than all the rest."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1] or b"", dtype)[column.offset : column.offset + len(column)]
