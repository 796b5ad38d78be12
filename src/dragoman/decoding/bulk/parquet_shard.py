"""A shard of Parquet: all its columns, and one more with the translations. Here alone is Arrow needed."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.data.durable import Sink
from dragoman.data.parquet import explained
from dragoman.decoding.bulk.rows import Columns, Counts, in_step

ROW_GROUP: Final = 16_384
"""Rows written together, however they came: so the bytes do not depend on how the shard was cut."""

_AT_ONCE: Final = 2048
_WAY: Final = {"version": "2.6", "compression": "zstd", "use_dictionary": True, "write_statistics": True}
"""Said, and not left to what the installed version of Arrow finds best."""


def translate_parquet(
    shard: Path,
    sink: Sink,
    columns: Columns,
    translate: Callable[[Iterable[str]], Iterator[object]],
    kind: pa.DataType | None = None,
) -> Counts:
    """Writes every row with its translation, null where there was null. `kind` is of what is more than a text."""
    rows = nulls = 0
    with explained(shard), pq.ParquetFile(shard) as file:
        schema = _with_column(shard, file.schema_arrow, columns, kind)
        with pq.ParquetWriter(sink, schema, **_WAY) as writer:
            for table, translations in in_step(_groups(shard, file, columns), translate):
                added = pa.array(translations, schema.field(columns.into).type)
                writer.write_table(table.append_column(schema.field(columns.into), added), ROW_GROUP)
                rows += len(translations)
                nulls += translations.count(None)
    return Counts(rows, nulls)


def _with_column(shard: Path, schema: pa.Schema, columns: Columns, added: pa.DataType | None) -> pa.Schema:
    if columns.text not in schema.names:
        there = ", ".join(map(repr, schema.names)) or "none"
        raise ValueError(f"{shard}: no column {columns.text!r}, but {there}; give the right one with --field")
    if columns.into in schema.names:
        raise ValueError(f"{shard}: there is a column {columns.into!r} already; give another name with --into")
    kind = schema.field(columns.text).type
    if not _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise ValueError(f"{shard}: column {columns.text!r} holds {kind}, not text; give another with --field")
    text = pa.large_string() if pa.types.is_large_string(kind) else pa.string()
    return schema.append(pa.field(columns.into, added or text))


def _is_text(kind: pa.DataType) -> bool:
    """A column that is null from top to bottom has no type, and is text as well as anything."""
    types = pa.types
    known = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(is_one(kind) for is_one in known)


def _groups(shard: Path, file: pq.ParquetFile, columns: Columns) -> Iterator[tuple[pa.Table, list[str | None]]]:
    before = 0
    for table in _cut(file):
        yield table, _texts(shard, table.column(columns.text), before)
        before += table.num_rows


def _cut(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows, so many at a time, whatever row groups they stand in."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in file.iter_batches(_AT_ONCE):
        rest = batch
        while rows + rest.num_rows >= ROW_GROUP:
            waiting.append(rest.slice(0, ROW_GROUP - rows))
            rest = rest.slice(ROW_GROUP - rows)
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
        waiting.append(rest)
        rows += rest.num_rows
    if rows:
        yield pa.Table.from_batches(waiting)


def _texts(shard: Path, column: pa.ChunkedArray, before: int) -> list[str | None]:
    cells = pa.chunked_array([_plain(chunk) for chunk in column.chunks], pa.large_binary())
    texts: list[str | None] = []
    for cell in cells.to_pylist():
        try:
            texts.append(None if cell is None else cell.decode())
        except UnicodeDecodeError:
            raise ValueError(f"{shard}, row {before + len(texts)} (from 0): not UTF-8; mend it") from None
    return texts


def _plain(chunk: pa.Array) -> pa.Array:
    return (chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk).cast(pa.large_binary())
