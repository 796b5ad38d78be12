"""Readers of corpus formats: two text files, or a single TSV, CSV, JSON lines or Parquet file.

Each reader yields pairs as raw bytes in Arrow arrays, in bounded memory. In text files, only a newline ends a line.
U+2028, U+2029, NEL, carriage returns and form feeds are part of the line: splitting there would misalign the two sides.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.io.streams import is_utf8, open_seekable, read_blocks
from dragoman.text.cleaning import LONGEST_LINE

RawText: TypeAlias = pa.LargeBinaryArray
_BOM = b"\xef\xbb\xbf"
_ROWS = 4096
_BYTES = 16 << 20
_FIX = "give --fields SOURCE,TARGET, or set source_field and target_field of the corpus in a recipe"
_NEVER_ESCAPED = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # no byte is decoded to one of these

_SIDES: Final = (frozenset({"source", "src"}), frozenset({"target", "tgt", "trg"}))
_LANGUAGES: Final = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
"""The language codes of ISO 639-1."""

_SEPARATORS: Final = "\t;,"
_NAMED_SEPARATOR: Final = re.compile(r'"?sep=(.)"?\s*$')
"""The first line by which Excel names the separator."""
_SNIFFED_LINES: Final = 100
_SPACES: Final = re.compile(r"[ \t\r\n]+")
_UNEVEN: Final = re.compile(r"[\t\r\n]|  ")


class RawPairs(NamedTuple):
    """Consecutive sentence pairs as raw bytes."""

    source: RawText
    target: RawText
    unterminated: bool
    """True if the last line is the end of the file and has no newline."""


class Lines(NamedTuple):
    """Consecutive lines as raw bytes, without newlines."""

    text: RawText
    unterminated: bool
    """True if the last line is the end of the file and has no newline."""


def read_text(source: str, target: str) -> Iterator[RawPairs]:
    """Yield the pairs of two text files; raise ValueError if the files have different numbers of lines."""
    left, right = (split_lines(read_blocks(address)) for address in (source, target))
    here, there = next(left, None), next(right, None)
    num_pairs = 0
    while here and there:
        n = min(len(here.text), len(there.text))
        num_pairs += n
        ended = any(lines.unterminated and len(lines.text) == n for lines in (here, there))
        yield RawPairs(here.text[:n], there.text[:n], ended)
        here, there = _after(here, n, left), _after(there, n, right)
    if here or there:
        sides = ((here, left), (there, right))
        more = [len(rest.text if rest else ()) + sum(len(lines.text) for lines in later) for rest, later in sides]
        raise different_lengths(source, target, num_pairs + more[0], num_pairs + more[1])


def different_lengths(source: str, target: str, num_source: int, num_target: int) -> ValueError:
    """Return the error of two text files with different numbers of lines."""
    wrong = f"{source} has {num_source} lines but {target} has {num_target}"
    return ValueError(f'{wrong}: give files with the same number of lines (only "\\n" ends a line)')


def read_tsv(address: str, source: str = "0", target: str = "1") -> Iterator[RawPairs]:
    """Yield the pairs in two columns of a TSV file; quotation marks are ordinary characters.

    `source` and `target` are column indices, from 0, or column names in the first line of the file. By default, a first
    line that `find_columns` recognises is the header of the file.
    """
    is_default = (source, target) == ("0", "1")
    columns: tuple[int, int] | None = (int(source), int(target)) if source.isdecimal() and target.isdecimal() else None
    first_line, is_first = 0, True
    for lines in split_lines(read_blocks(address)):
        text = lines.text
        header = _tsv_header(text[0].as_py()) if is_first and (is_default or columns is None) else []
        if columns is None:
            columns = _named_columns(address, header, source, target)
            text, first_line = text[1:], 1
        elif is_default and (named := find_columns(header)):
            columns, text, first_line = named, text[1:], 1
        is_first = False
        yield RawPairs(*_columns(address, text, columns, first_line), lines.unterminated)
        first_line += len(text)


def read_csv(address: str, source: str = "source", target: str = "target") -> Iterator[RawPairs]:
    """Yield the pairs in two columns of a CSV file; its separator is a comma, a semicolon or a tab.

    `source` and `target` are column names in the first row, or column indices, from 0. By default, a first row that
    `find_columns` recognises is the header, and a file of two columns needs no header. A quoted field can contain line
    breaks, which become spaces.
    """
    lines = _csv_lines(address)
    start = list(islice(lines, _SNIFFED_LINES))
    separator = _find_separator(start)
    if _NAMED_SEPARATOR.match(start[0]):
        start[0] = "\n"
    rows = _csv_rows(address, chain(start, lines), separator)
    line, first = next(rows, (1, []))
    columns, has_header = _csv_columns(address, first, source, target)
    pairs = _csv_pairs(address, rows if has_header else chain([(line, first)], rows), columns, len(first))
    yield from to_blocks(pairs)


def find_columns(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the source and target columns of a header, or None if the names do not tell.

    The columns are named source or src, and target, tgt or trg; or two of them are named by language codes.
    """
    names = [name.strip().lower() for name in header]
    source, target = ([i for i, name in enumerate(names) if name in known] for known in _SIDES)
    if len(source) == len(target) == 1:
        return source[0], target[0]
    languages = [i for i, name in enumerate(names) if is_language_code(name)]
    if len(languages) > 2:  # most columns named id hold no Indonesian
        languages = [i for i in languages if names[i] != "id"]
    is_clear = len(languages) == 2 and names[languages[0]] != names[languages[1]]
    return (languages[0], languages[1]) if is_clear else None


def find_column_languages(address: str, is_csv: bool) -> tuple[str, str] | None:
    """Return the language codes in the header of a CSV or TSV file, or None if there are none."""
    start = list(islice(_csv_lines(address), _SNIFFED_LINES))
    rows = csv.reader(start, delimiter=_find_separator(start)) if is_csv else (line.split("\t") for line in start)
    header = next((row for row in rows if row and not _NAMED_SEPARATOR.match(row[0])), [])
    columns = find_columns(header)
    names = [header[column].strip() for column in columns or ()]
    return (names[0], names[1]) if names and all(map(is_language_code, names)) else None


def is_language_code(name: str) -> bool:
    """Return True for a language code of two letters, also with a script or region: en, pt-BR, zh_Hans."""
    match = re.fullmatch(r"([a-z]{2})([-_][a-z]{2,4})?", name.lower())
    return bool(match and match[1] in _LANGUAGES)


def to_blocks(pairs: Iterable[tuple[str, str]]) -> Iterator[RawPairs]:
    """Yield the pairs as blocks of raw bytes, of a few thousand pairs and a few megabytes at most."""
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    size = 0
    for pair in pairs:
        for side, text in zip(sides, pair, strict=True):
            side.append(text.encode(errors="surrogateescape"))
            size += len(side[-1])
        if len(sides[0]) == _ROWS or size >= _BYTES:
            yield _block(*sides)
            sides, size = ([], []), 0
    if sides[0]:
        yield _block(*sides)


def join_lines(text: str) -> str:
    """Return the text with each run of spaces, tabs and line breaks as one space."""
    return (_SPACES.sub(" ", text) if _UNEVEN.search(text) else text).strip(" ")


def read_jsonl(address: str, source: str = "source", target: str = "target") -> Iterator[RawPairs]:
    """Yield the pairs of a JSON lines file; the key `outer.inner` is the key `inner` of a nested object."""
    first_line = 0
    for lines in split_lines(read_blocks(address)):
        numbered = enumerate(lines.text.to_pylist(), first_line + 1)
        pairs = [_texts(f"{address}, line {number}", line, source, target) for number, line in numbered]
        long = is_stub(lines.text)
        sides = [pc.if_else(long, lines.text, pa.array(side, pa.large_binary())) for side in zip(*pairs, strict=True)]
        yield RawPairs(sides[0], sides[1], lines.unterminated)
        first_line += len(pairs)


def read_parquet(address: str, source: str = "source", target: str = "target") -> Iterator[RawPairs]:
    """Yield the pairs in two Parquet columns; `column.field` is a struct field. Null becomes an empty sentence."""
    with open_seekable(address) as stream:
        with explain_parquet_errors(address):
            table = pq.ParquetFile(stream)
        columns = [_column_of(address, table.schema_arrow, field) for field in (source, target)]
        for batch in table.iter_batches(_ROWS, columns=[column for column, _ in columns]):
            left, right = (_cells(address, batch, column, inner) for column, inner in columns)
            yield RawPairs(left, right, unterminated=False)


def _after(lines: Lines, n: int, following: Iterator[Lines]) -> Lines | None:
    """Return the lines after the first n or, if none are left, the next item of `following`."""
    return Lines(lines.text[n:], lines.unterminated) if n < len(lines.text) else next(following, None)


def _block(source: list[bytes], target: list[bytes]) -> RawPairs:
    left, right = (cut_long_lines(pa.array(side, pa.large_binary())) for side in (source, target))
    return RawPairs(left, right, unterminated=False)


def _csv_lines(address: str) -> Iterator[str]:
    """Yield the lines of a file with their newlines; bytes that are not UTF-8 are kept as escapes."""
    number = 0
    for lines in split_lines(read_blocks(address)):
        for line in lines.text.to_pylist():
            number += 1
            if len(line) > LONGEST_LINE:
                raise ValueError(f"{address}, line {number}: the line has more than {LONGEST_LINE:,} bytes: split it")
            yield (line if number > 1 else line.removeprefix(_BOM)).decode(errors="surrogateescape") + "\n"


def _find_separator(start: list[str]) -> str:
    """Return the separator that gives the most regular table; a line such as `sep=;` names it."""
    named = _NAMED_SEPARATOR.match(start[0])
    return named[1] if named else max(_SEPARATORS, key=lambda separator: _regularity(start, separator))


def _regularity(start: list[str], separator: str) -> tuple[bool, float, bool]:
    try:
        rows = [row for row in csv.reader(start, delimiter=separator) if row]
    except csv.Error:
        rows = []
    num_columns, num_rows = next(iter(Counter(map(len, rows)).most_common(1)), (0, 0))
    if num_columns < 2:
        return False, 0.0, False
    return find_columns(rows[0]) is not None, num_rows / len(rows), num_columns == 2


def _csv_rows(address: str, lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, with the number of the line where each begins."""
    rows = csv.reader(lines, delimiter=separator, strict=True)
    line = 1
    try:
        for row in rows:
            if row:
                yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        fix = "end each quoted field with a quotation mark, and double those inside"
        raise ValueError(f"{address}, line {line}: not valid CSV ({error}): {fix}") from None


def _csv_columns(address: str, first: list[str], source: str, target: str) -> tuple[tuple[int, int], bool]:
    """Return the source and target columns, and True if the first row is a header."""
    named = find_columns(first)
    if source.isdecimal() and target.isdecimal():
        return (int(source), int(target)), named is not None
    if (source, target) != ("source", "target"):
        return _named_columns(address, [name.strip() for name in first], source, target), True
    if named:
        return named, True
    if len(first) == 2:
        return (0, 1), False
    if len(first) < 2:
        fix = "separate source and target by a comma, a semicolon or a tab"
        raise ValueError(f"{address}: the first row has one column: {fix}")
    wrong = f"{len(first)} columns, and the first row ({_list_names(first)}) does not name a source and a target"
    raise ValueError(f"{address}: {wrong}: {_FIX}")


def _csv_pairs(
    address: str, rows: Iterable[tuple[int, list[str]]], columns: tuple[int, int], num_columns: int
) -> Iterator[tuple[str, str]]:
    if max(columns) >= num_columns:
        raise ValueError(f"{address}: the first row has no column {max(columns)} (from 0): {_FIX}")
    for line, row in rows:
        if len(row) != num_columns:
            wrong = f"the row has {len(row)} columns, but the first row has {num_columns}"
            raise ValueError(f"{address}, line {line}: {wrong}: quote text that contains the separator")
        yield join_lines(row[columns[0]]), join_lines(row[columns[1]])


def _tsv_header(line: bytes) -> list[str]:
    return line.removeprefix(_BOM).rstrip(b"\r").decode(errors="replace").split("\t")


def _named_columns(address: str, names: list[str], source: str, target: str) -> tuple[int, int]:
    for name in (source, target):
        if name not in names:
            raise ValueError(f"{address}: no column {name!r} in the first line ({_list_names(names)}): {_FIX}")
    return names.index(source), names.index(target)


def _columns(address: str, text: RawText, columns: tuple[int, int], first_line: int) -> tuple[RawText, RawText]:
    """Return the source and target columns.

    A blank line has two empty cells. A truncated line is copied to both columns, so that cleaning drops it.
    """
    needed = max(columns) + 1
    long = is_stub(text)
    blank = pc.is_in(text, pa.array([b"", b"\r"], pa.large_binary()))
    cells = pc.split_pattern(pc.if_else(pc.or_(long, blank), b"\t" * (needed - 1), text), "\t")
    short = np.flatnonzero(pc.list_value_length(cells).to_numpy(zero_copy_only=False) < needed)
    if len(short):
        row = int(short[0])
        wrong = f"the line has {len(cells[row])} tab-separated columns, but no column {needed - 1} (from 0)"
        raise ValueError(f"{address}, line {first_line + row + 1}: {wrong}: fix the line, or give other columns")
    source, target = (pc.if_else(long, text, pc.list_element(cells, column)) for column in columns)
    return source, target


def _texts(where: str, line: bytes, source: str, target: str) -> tuple[bytes, bytes]:
    """Return the source and target of a JSON line; both are empty if the line is blank or truncated."""
    if not line.strip() or len(line) > LONGEST_LINE:
        return b"", b""
    try:
        record = json.loads(line.removeprefix(_BOM).decode(errors="surrogateescape"))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise ValueError(f"{where}: the line is not JSON ({error}): write one object per line") from None
    return _raw(_value(where, record, source), line), _raw(_value(where, record, target), line)


def _value(where: str, record: Any, field: str) -> str:
    """Return the string at a key; `outer.inner` is the key `inner` of a nested object."""
    value, known = record, ""
    for key in [field] if isinstance(record, dict) and field in record else field.split("."):
        if not isinstance(value, dict) or key not in value:
            keys = _list_names(list(value)) if isinstance(value, dict) else "no keys"
            raise ValueError(f"{where}: no key {field!r} ({known or 'the line'} has {keys}): fix the line, or {_FIX}")
        value, known = value[key], key
    if not isinstance(value, str):
        raise ValueError(f"{where}: the value of {field!r} is {json.dumps(value)[:40]}, not a string: write a string")
    return value


def _raw(text: str, line: bytes) -> bytes:
    """Return text as bytes; keep invalid UTF-8 and lone surrogates, so that cleaning can count them."""
    escaped = not is_utf8(line) and not _NEVER_ESCAPED.search(text)
    return text.encode(errors="surrogateescape" if escaped else "surrogatepass")


def _column_of(address: str, schema: pa.Schema, field: str) -> tuple[str, str | None]:
    """Return the column name and, for `column.field`, the name of the struct field (else None)."""
    column, _, inner = (field, "", "") if field in schema.names else field.partition(".")
    if column not in schema.names:
        raise ValueError(f"{address}: no column {field!r} (columns: {_list_names(schema.names)}): {_FIX}")
    kind = schema.field(column).type
    if not inner:
        return column, None
    if not pa.types.is_struct(kind) or kind.get_field_index(inner) < 0:
        parts = _list_names([part.name for part in kind]) if pa.types.is_struct(kind) else "none"
        raise ValueError(f"{address}: no field {inner!r} in column {column!r} (fields: {parts}): {_FIX}")
    return column, inner


def _cells(address: str, batch: pa.RecordBatch, column: str, inner: str | None) -> RawText:
    cells = batch.column(column)
    cells = cells if inner is None else pc.struct_field(cells, inner)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    try:
        return cut_long_lines(pc.fill_null(cells.cast(pa.large_binary()), b""))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        name = column if inner is None else f"{column}.{inner}"
        raise ValueError(f"{address}: column {name!r} has type {cells.type}: give a column of strings") from None


def _list_names(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def split_lines(blocks: Iterable[bytes]) -> Iterator[Lines]:
    """Split a byte stream into lines; yield the lines that end in each block together."""
    begun = b""
    for block in blocks:
        text = begun + block
        end = text.rfind(b"\n") + 1
        begun = text[end : end + LONGEST_LINE + 1]
        if end:
            yield Lines(_split(text[:end]), unterminated=False)
    if begun:
        yield Lines(pa.array([begun], pa.large_binary()), unterminated=True)


def cut_long_lines(text: RawText) -> RawText:
    """Return the lines, truncated to LONGEST_LINE + 1 bytes; `is_stub` recognizes truncated lines."""
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    return text if longest <= LONGEST_LINE else pc.binary_slice(text, 0, LONGEST_LINE + 1)


def is_stub(text: RawText) -> pa.BooleanArray:
    """Return a mask of the lines that `cut_long_lines` has truncated."""
    return pc.greater(pc.binary_length(text), LONGEST_LINE)


def _split(text: bytes) -> RawText:
    """Return the lines of a text that ends with a newline."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends - np.arange(len(ends))  # as they are once the ends are taken out
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.replace(b"\n", b""))]
    return cut_long_lines(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers))


@contextmanager
def explain_parquet_errors(address: str | Path) -> Iterator[None]:
    """Convert Arrow's errors about invalid Parquet into a ValueError that names the file."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise ValueError(f"{address}: not a valid Parquet file ({error}): create the file again") from None
