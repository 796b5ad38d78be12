"""Read Parquet files row by row, and write them with the translation as a new column. Needs Arrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.data.corpus_formats import explain_parquet_errors
from dragoman.io.durable import Sink
from dragoman.translation.file_formats import FieldNames, RowCounts, Translate

ROW_GROUP: Final = 16_384
"""Rows per row group of the output, so that the bytes do not depend on the row groups of the input."""

READ_ROWS: Final = 2048
_PARQUET_OPTIONS: Final = {"version": "2.6", "compression": "zstd", "use_dictionary": True, "write_statistics": True}
"""Set explicitly, so that the bytes do not depend on the defaults of the Arrow version."""


def translate_parquet(
    path: Path, sink: Sink, fields: FieldNames, translate: Translate, value_type: pa.DataType | None = None
) -> RowCounts:
    """Write every row with its translation in a new column; the translation of a null text is null.

    `value_type` is the type of the new column, by default text.
    """
    num_rows = nulls = 0
    with explain_parquet_errors(path), pq.ParquetFile(path) as file:
        schema = _with_column(path, file.schema_arrow, fields, value_type)
        added = schema.field(fields.into)
        values: list[object] = []
        with pq.ParquetWriter(sink, schema, **_PARQUET_OPTIONS) as writer:
            for table, value in translate(_read_rows(path, file, fields)):
                values.append(value)
                if table is not None:  # the last row of a group
                    writer.write_table(table.append_column(added, pa.array(values, added.type)), ROW_GROUP)
                    num_rows += len(values)
                    nulls += values.count(None)
                    values = []
    return RowCounts(num_rows, nulls)


def count_rows(path: Path) -> int:
    """Return the number of rows in a Parquet file."""
    with explain_parquet_errors(path):
        return int(pq.read_metadata(path).num_rows)


def _with_column(path: Path, schema: pa.Schema, fields: FieldNames, value_type: pa.DataType | None) -> pa.Schema:
    if fields.text not in schema.names:
        names = ", ".join(map(repr, schema.names)) or "none"
        raise ValueError(f"{path}: no column {fields.text!r} (columns: {names}): name the text column with --field")
    if fields.into in schema.names:
        raise ValueError(f"{path}: the column {fields.into!r} exists already: give another name with --into")
    kind = schema.field(fields.text).type
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types  # a column that is null from top to bottom has no type, and may be text
    if not any(test(inner) for test in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        raise ValueError(f"{path}: column {fields.text!r} holds {kind}, not text: name a text column with --field")
    text = pa.large_string() if types.is_large_string(kind) else pa.string()
    return schema.append(pa.field(fields.into, value_type or text))


def _read_rows(path: Path, file: pq.ParquetFile, fields: FieldNames) -> Iterator[tuple[pa.Table | None, str | None]]:
    """Yield (table, text) for each row: the table is the whole row group at its last row, and None before."""
    before = 0
    for table in _read_groups(file):
        texts = _texts(path, table.column(fields.text), before)
        before += table.num_rows
        for text in texts[:-1]:
            yield None, text
        yield table, texts[-1]


def _read_groups(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """Yield tables of ROW_GROUP rows, independent of the row groups of the file."""
    batches: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in file.iter_batches(READ_ROWS):
        rest = batch
        while num_rows + rest.num_rows >= ROW_GROUP:
            batches.append(rest.slice(0, ROW_GROUP - num_rows))
            rest = rest.slice(ROW_GROUP - num_rows)
            yield pa.Table.from_batches(batches)
            batches, num_rows = [], 0
        batches.append(rest)
        num_rows += rest.num_rows
    if num_rows:
        yield pa.Table.from_batches(batches)


def _texts(path: Path, column: pa.ChunkedArray, before: int) -> list[str | None]:
    texts: list[str | None] = []
    for chunk in column.chunks:
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        for cell in plain.cast(pa.large_binary()).to_pylist():
            try:
                texts.append(None if cell is None else cell.decode())
            except UnicodeDecodeError:
                raise ValueError(f"{path}, row {before + len(texts)} (from 0): not UTF-8: convert to UTF-8") from None
    return texts
