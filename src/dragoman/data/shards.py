"""Shards: memory-mapped Arrow files of encoded pairs, sorted by length cell.

A shard is an uncompressed Arrow IPC file with a single record batch, so that its columns can be used without copying.
The same pairs give the same bytes.
"""

import contextlib
from pathlib import Path
from typing import Annotated, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Integer
from numpy import ndarray
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator

from dragoman.data.length_cells import CellCounts, count_cells, sort_into_cells
from dragoman.io.durable import FIX, DamageError, FileInfo, Sink, find_damage, write_durably
from dragoman.text.ragged import Ids, Ragged

DAMAGED: Final = ".damaged"
"""The suffix of a shard that was found damaged while it was read."""


class ShardInfo(FileInfo):
    """The manifest entry of a shard."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    num_pairs: int = Field(ge=0, description="number of pairs in the shard")
    cells: (
        Annotated[
            CellCounts,
            PlainValidator(lambda rows: np.array(rows, np.int32).reshape(-1, 3)),
            PlainSerializer(ndarray.tolist, when_used="json"),
        ]
        | None
    ) = Field(None, description="length cells (source length, target length, pairs); absent if the folder has a table")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardInfo) and self.model_dump_json() == other.model_dump_json()


class ShardTexts(NamedTuple):
    """Sentence pairs of a shard as text, for subword sampling."""

    source: pa.LargeStringArray
    target: pa.LargeStringArray


class ShardRows(NamedTuple):
    """Sentence pairs of a shard as token ids."""

    source: Ragged
    target: Ragged


def verify_shard(folder: Path, info: FileInfo) -> None:
    """Raise DamageError if the size or the SHA-256 of a shard is wrong.

    A damaged shard is renamed, so that the next preparation of the folder finds it missing and writes it again.
    """
    if wrong := find_damage(folder, info):
        path, aside = folder / info.file, folder / f"{info.file}{DAMAGED}"
        with contextlib.suppress(OSError):  # missing, renamed by another process, or in a folder without permission
            path.rename(aside)
        raise DamageError(path, wrong, f"it is now named {aside.name}; {FIX}" if aside.exists() else FIX)


def write_shard(
    path: Path,
    source: Ragged,
    target: Ragged,
    texts: ShardTexts | None,
    lines: Int64[ndarray, " pairs"],
    links: Ragged | None = None,
) -> ShardInfo:
    """Sort the pairs by length cell and write them.

    `lines` are the line numbers in the corpus, from 0; `links` are word links, as `word_links.py` describes.
    """
    counts = [source.num_rows, target.num_rows, len(lines), *map(len, texts or ())]
    if len(set(counts)) > 1:
        raise ValueError(f"sources, targets, lines and texts differ in number {counts}: give the same number of each")
    order = sort_into_cells(source.lengths, target.lengths)
    source, target = source.take(order), target.take(order)
    columns = {"source": to_lists(source), "target": to_lists(target), "line": pa.array(lines[order])}
    if texts is not None:
        rows = pa.array(order)
        columns |= {"source_text": texts.source.take(rows), "target_text": texts.target.take(rows)}
    if links is not None:
        columns["links"] = to_lists(links.take(order))
    file = save_batch(path, pa.record_batch(columns))
    cells = count_cells(source.lengths, target.lengths)
    return ShardInfo(**file.model_dump(), num_pairs=len(lines), cells=cells)


class Shard:
    """An open, memory-mapped shard: opening reads only the footer, and reading a row only its pages."""

    def __init__(self, path: Path) -> None:
        batch = load_batch(path)
        self.path = path
        self.num_pairs: int = batch.num_rows
        self._batch = batch
        self._source = to_ragged(batch.column("source"))
        self._target = to_ragged(batch.column("target"))
        self._links = to_ragged(batch.column("links")) if "links" in batch.schema.names else None
        self._lines = cast("NDArray[np.int64]", _view(batch.column("line")))

    def rows(self, indices: Integer[ndarray, " rows"]) -> ShardRows:
        """Return the token ids of the pairs at these indices."""
        return ShardRows(self._source.take(indices), self._target.take(indices))

    def links(self, indices: Integer[ndarray, " rows"]) -> Ragged | None:
        """Return the word links of the pairs at these indices; None if the shard was prepared without links."""
        return None if self._links is None else self._links.take(indices)

    def lines(self, indices: Integer[ndarray, " rows"]) -> Int64[ndarray, " rows"]:
        """Return the line numbers in the corpus, from 0, of the pairs at these indices."""
        return np.asarray(self._lines[indices])

    def texts(self, indices: Integer[ndarray, " rows"]) -> ShardTexts:
        """Return the text of the pairs at these indices; raise ValueError if the shard was prepared without text."""
        if "source_text" not in self._batch.schema.names:
            raise ValueError(f"{self.path} has no text: prepare the corpus with --keep-text for subword sampling")
        rows = pa.array(indices)
        return ShardTexts(self._batch.column("source_text").take(rows), self._batch.column("target_text").take(rows))


def save_batch(path: Path, batch: pa.RecordBatch) -> FileInfo:
    """Write a record batch as an Arrow file."""

    def write(sink: Sink) -> None:
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)

    return write_durably(path, write)


def load_batch(path: Path) -> pa.RecordBatch:
    """Return the record batch of an Arrow file, memory-mapped."""
    try:
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        if file.num_record_batches != 1:
            raise DamageError(path, f"the file has {file.num_record_batches} record batches instead of 1")
        return file.get_batch(0)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamageError(path, f"not a valid shard ({error})") from error


def to_lists(rows: Ragged) -> pa.LargeListArray:
    """Return a ragged array as an Arrow column."""
    return pa.LargeListArray.from_arrays(pa.array(rows.offsets), pa.array(rows.ids))


def to_ragged(column: pa.LargeListArray) -> Ragged:
    """Return an Arrow column as a ragged array, without copying."""
    ids, offsets = cast("Ids", _view(column.values)), cast("NDArray[np.int64]", _view(column.offsets))
    if not len(offsets) or (offsets[0] == 0 and offsets[-1] == len(ids)):
        return Ragged(ids, offsets)
    return Ragged(ids[offsets[0] : offsets[-1]], offsets - offsets[0])


def _view(column: pa.Array) -> NDArray[np.integer]:
    """Return a column as a NumPy array without copying; unlike `to_numpy`, do not import pandas, which is slow."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1] or b"", dtype)[column.offset : column.offset + len(column)]
