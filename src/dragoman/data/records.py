"""Sentence pairs as they stand in files: two of text, or one of tab-separated columns, JSON lines or Parquet."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.data.lines import Lines, is_stub, split_lines, stubbed
from dragoman.data.parquet import explained
from dragoman.data.problem import LONGEST_LINE
from dragoman.data.sniff import is_utf8
from dragoman.data.stream import read_blocks, seekable

_BOM = b"\xef\xbb\xbf"
_ROWS = 4096
_NEVER_ESCAPED = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # no byte is decoded to one of these


@dataclass(frozen=True)
class Pairs:
    """Some pairs in a row, as raw bytes."""

    source: pa.LargeBinaryArray
    target: pa.LargeBinaryArray
    unterminated: bool
    """The last of them ends its file without a newline."""


def read_text(source: str, target: str) -> Iterator[Pairs]:
    """Two files of the same number of lines."""
    counts = {source: 0, target: 0}
    left, right = (_counted(address, counts) for address in (source, target))
    here, there = next(left, None), next(right, None)
    while here and there:
        n = min(len(here.text), len(there.text))
        ended = any(lines.unterminated and len(lines.text) == n for lines in (here, there))
        yield Pairs(here.text[:n], there.text[:n], ended)
        here, there = _after(here, n, left), _after(there, n, right)
    if here or there:
        for _ in chain(left, right):  # to know how many lines there are
            pass
        raise ValueError(
            f"{source} has {counts[source]} lines and {target} has {counts[target]}: line n of one must translate line "
            'n of the other. Was one written by a tool that cuts at more than "\\n", or not copied to its end?'
        )


def read_tsv(address: str, source: str, target: str) -> Iterator[Pairs]:
    """Tab-separated columns, taken as they stand: no quoting. A column is a number from 0, or a name: then the first
    line holds the names.
    """
    columns: tuple[int, int] | None = (int(source), int(target)) if source.isdigit() and target.isdigit() else None
    first_line = 0
    for lines in split_lines(read_blocks(address)):
        text = lines.text
        if columns is None:
            columns = _named_columns(address, text[0].as_py(), source, target)
            text, first_line = text[1:], 1
        yield Pairs(*_columns(address, text, columns, first_line), lines.unterminated)
        first_line += len(text)


def read_jsonl(address: str, source: str, target: str) -> Iterator[Pairs]:
    """One JSON object a line; a key inside another object is written `outer.inner`."""
    first_line = 0
    for lines in split_lines(read_blocks(address)):
        pairs = [
            _texts(f"{address}, line {number}", line, source, target)
            for number, line in enumerate(lines.text.to_pylist(), first_line + 1)
        ]
        long = is_stub(lines.text)
        sides = [pc.if_else(long, lines.text, pa.array(side, pa.large_binary())) for side in zip(*pairs, strict=True)]
        yield Pairs(sides[0], sides[1], lines.unterminated)
        first_line += len(pairs)


def read_parquet(address: str, source: str, target: str) -> Iterator[Pairs]:
    """Two columns; a field inside a struct is written `column.field`. A missing value is an empty side."""
    with seekable(address) as stream:
        with explained(address):
            table = pq.ParquetFile(stream)
        columns = [_column_of(address, table.schema_arrow, field) for field in (source, target)]
        for batch in table.iter_batches(_ROWS, columns=[column for column, _ in columns]):
            left, right = (_cells(address, batch, column, inner) for column, inner in columns)
            yield Pairs(left, right, unterminated=False)


def _counted(address: str, counts: dict[str, int]) -> Iterator[Lines]:
    for lines in split_lines(read_blocks(address)):
        counts[address] += len(lines.text)
        yield lines


def _after(lines: Lines, n: int, following: Iterator[Lines]) -> Lines | None:
    """What is left of some lines after the first n, or else the next ones."""
    return Lines(lines.text[n:], lines.unterminated) if n < len(lines.text) else next(following, None)


def _named_columns(address: str, header: bytes, source: str, target: str) -> tuple[int, int]:
    names = header.removeprefix(_BOM).rstrip(b"\r").decode(errors="replace").split("\t")
    for name in (source, target):
        if name not in names:
            raise ValueError(f"{address}: no column {name!r} in its first line, which has {_listed(names)}")
    return names.index(source), names.index(target)


def _columns(
    address: str, text: pa.LargeBinaryArray, columns: tuple[int, int], first_line: int
) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Two of the columns. A blank line is a pair with both sides empty, and a stub is too long on both sides."""
    needed = max(columns) + 1
    long = is_stub(text)
    blank = pc.is_in(text, pa.array([b"", b"\r"], pa.large_binary()))
    cells = pc.split_pattern(pc.if_else(pc.or_(long, blank), b"\t" * (needed - 1), text), "\t")
    short = np.flatnonzero(pc.list_value_length(cells).to_numpy(zero_copy_only=False) < needed)
    if len(short):
        row = int(short[0])
        raise ValueError(
            f"{address}, line {first_line + row + 1}: {len(cells[row])} tab-separated columns, but column "
            f"{needed - 1} (counted from 0) is asked for; mend the line or name other columns"
        )
    source, target = (pc.if_else(long, text, pc.list_element(cells, column)) for column in columns)
    return source, target


def _texts(where: str, line: bytes, source: str, target: str) -> tuple[bytes, bytes]:
    """Both sides of one JSON line. A blank line has both empty; of one that was too long nothing can be read."""
    if not line.strip() or len(line) > LONGEST_LINE:
        return b"", b""
    try:
        record = json.loads(line.removeprefix(_BOM).decode(errors="surrogateescape"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); each line must be one object") from None
    return _raw(_value(where, record, source), line), _raw(_value(where, record, target), line)


def _value(where: str, record: Any, field: str) -> str:
    """The text under a key, or under a key of an inner object."""
    value, known = record, ""
    for key in [field] if isinstance(record, dict) and field in record else field.split("."):
        if not isinstance(value, dict) or key not in value:
            keys = _listed(list(value)) if isinstance(value, dict) else "no keys: it is not an object"
            raise ValueError(f"{where}: no {field!r}; {known or 'the line'} has {keys}")
        value, known = value[key], key
    if not isinstance(value, str):
        raise ValueError(f"{where}: {field!r} must be text, not {json.dumps(value)[:40]}")
    return value


def _raw(text: str, line: bytes) -> bytes:
    """Text as bytes again, with what was broken in it broken as it was: bytes that are not UTF-8, lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    escaped = not is_utf8(line) and not _NEVER_ESCAPED.search(text)
    return text.encode(errors="surrogateescape" if escaped else "surrogatepass")


def _column_of(address: str, schema: pa.Schema, field: str) -> tuple[str, str | None]:
    """The column a field stands in, and its name inside that column if it is a part of it."""
    column, _, inner = (field, "", "") if field in schema.names else field.partition(".")
    if column not in schema.names:
        raise ValueError(f"{address}: no column {field!r}; it has {_listed(schema.names)}")
    kind = schema.field(column).type
    if not inner:
        return column, None
    if not pa.types.is_struct(kind) or kind.get_field_index(inner) < 0:
        parts = _listed([part.name for part in kind]) if pa.types.is_struct(kind) else "no parts"
        raise ValueError(f"{address}: no {inner!r} in column {column!r}, which has {parts}")
    return column, inner


def _cells(address: str, batch: pa.RecordBatch, column: str, inner: str | None) -> pa.LargeBinaryArray:
    cells = batch.column(column)
    cells = cells if inner is None else pc.struct_field(cells, inner)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    try:
        return stubbed(pc.fill_null(cells.cast(pa.large_binary()), b""))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        name = column if inner is None else f"{column}.{inner}"
        raise ValueError(f"{address}: column {name!r} holds {cells.type}, not text") from None


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
