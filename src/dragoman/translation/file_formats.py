"""Read and write plain text, JSON lines and Parquet files, optionally compressed.

A translated file has the same rows in the same order. Line ends, blank lines and the other fields of a row stay
unchanged byte for byte. The same input always gives the same output bytes. Only Parquet and .zst files need Arrow.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, cast

from dragoman.io.durable import Sink
from dragoman.io.remote_path import AnyPath
from dragoman.io.streams import CODECS, check_text, uncompressed_suffix

FormatName = Literal["text", "jsonl", "parquet", "html", "xml", "markdown", "srt", "po", "docx"]
MARKUP: Final = ("html", "xml", "markdown", "srt", "po", "docx")
"""Formats of whole documents, whose markup stays as it is."""

Write = Callable[[bytes], object]
"""Function that writes bytes to the output."""

Translate = Callable[[Iterable[tuple[Any, str | None]]], Iterator[tuple[Any, Any]]]
"""Function from (key, text) pairs to (key, value to write) pairs in the same order; None where there is no text."""

SUFFIXES: Final[dict[str, FormatName]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xml": "xml",
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "srt",
    ".vtt": "srt",
    ".po": "po",
    ".pot": "po",
    ".docx": "docx",
}
"""The format of a file by the ending of its name."""
_FIXES: Final = {
    "convert the file to JSON lines or Parquet": (".csv", ".tsv"),
    "write one object per line to a .jsonl file": (".json",),
    "convert the file to Parquet": (".arrow", ".feather"),
    "extract the text first": (".pdf", ".doc", ".odt"),
    "extract the files first": (".zip",),
    "compress the file as .gz or .zst": (".bz2", ".xz"),
}
_UNSUPPORTED: Final = {suffix: fix for fix, suffixes in _FIXES.items() for suffix in suffixes}
"""Extensions of unsupported files, and what to do with such a file."""

_BOM: Final = "\ufeff"
_GZIP_LEVEL: Final = 6
_BLOCK: Final = 1 << 20
_HALF: Final = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which JSON can hold and UTF-8 cannot encode."""


class FieldNames(NamedTuple):
    """The name of the field to translate, and of the field to add for the translation."""

    text: str = "text"
    into: str = "translation"


class RowCounts(NamedTuple):
    """The number of rows in a file, and the number of rows whose text is null."""

    rows: int
    nulls: int


class TextLine(NamedTuple):
    """One line of a file, with its line number and line terminator."""

    number: int
    """The line number, from 1."""
    text: str
    end: str
    """The line terminator: a newline or nothing, possibly after a carriage return."""
    file: str = ""


def format_by_name(path: AnyPath) -> FormatName | None:
    """Return the format that a file's extension stands for, or None if the extension is unknown."""
    return SUFFIXES.get(uncompressed_suffix(path).lower())


def refuse_unsupported(path: AnyPath, otherwise: str = "") -> None:
    """Raise ValueError if a file's extension belongs to an unsupported format."""
    suffix = uncompressed_suffix(path).lower()
    if fix := _UNSUPPORTED.get(suffix):
        raise ValueError(f"{path}: {suffix} files are not supported: {fix}{otherwise}")
    if suffix == ".parquet" and path.suffix in CODECS:
        raise ValueError(f"{path}: compressed Parquet files are not supported: decompress the file")


def translate_lines(
    lines: Iterable[TextLine], kind: FormatName, write: Write, fields: FieldNames, translate: Translate
) -> RowCounts:
    """Write the translation of each text line, or each JSON object with its translation added.

    Null texts stay null, and line ends stay unchanged.
    """
    rows = nulls = 0
    for line, value in translate(read_texts(lines, kind, fields)):
        if is_row(line, kind):
            rows += 1
            nulls += value is None
            text = value if kind == "text" else _with_member(line.text, fields.into, value)
        else:
            text = line.text
        write(f"{text}{line.end}".encode())
    return RowCounts(rows, nulls)


def read_texts(
    lines: Iterable[TextLine], kind: FormatName, fields: FieldNames
) -> Iterator[tuple[TextLine, str | None]]:
    """Yield each line with the text to translate: None for a JSON null and for a blank JSON line."""
    for line in lines:
        yield line, line.text if kind == "text" else _text_of(line, fields) if is_row(line, kind) else None


def is_row(line: TextLine, kind: FormatName) -> bool:
    """Return True if a line counts as a row: any line of plain text, or a JSON line that is not blank."""
    return kind == "text" or bool(line.text.strip())


def _text_of(line: TextLine, fields: FieldNames) -> str | None:
    where = f"{line.file}, line {line.number}"
    try:
        row: Any = json.loads(line.text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: the line is not JSON ({error}): write one object per line") from None
    if not isinstance(row, dict):
        raise ValueError(
            f"{where}: `{line.text[:40]}` is not a JSON object: write one object per line, with a text field"
        )
    if fields.text not in row:
        keys = ", ".join(map(repr, row)) or "none"
        raise ValueError(f"{where}: no field {fields.text!r} (fields: {keys}): name the text field with --field")
    if fields.into in row:
        raise ValueError(f"{where}: the field {fields.into!r} exists already: give another name with --into")
    text = row[fields.text]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{where}: the field {fields.text!r} is {json.dumps(text)[:40]}: write a string or null")
    if text is not None and _HALF.search(text):
        raise ValueError(f"{where}: the field {fields.text!r} holds a lone surrogate: replace that character")
    return text


def _with_member(line: str, into: str, value: object) -> str:
    """Return the JSON object with a member added; the existing members stay unchanged byte for byte."""
    body = line.rstrip()
    assert body.endswith("}")
    member = f"{json.dumps(into, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    return f"{body[:-1].rstrip()}, {member}}}{line[len(body) :]}"


def read_lines(path: Path) -> Iterator[TextLine]:
    """Yield the lines of a file, decompressed according to its extension."""
    return decode_lines(_raw_lines(path), str(path))


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[TextLine]:
    """Decode UTF-8 lines; raise ValueError with the line number if a line is not UTF-8.

    Only a newline ends a line; other Unicode line separators are part of the text.
    """
    for number, line in enumerate(lines, 1):
        if number == 1:
            check_text(name, line)
        try:
            whole = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: line {number} is not UTF-8: convert with iconv -f ENCODING -t UTF-8") from error
        text = whole.rstrip("\r\n")
        yield TextLine(number, text.removeprefix(_BOM) if number == 1 else text, whole[len(text) :], name)


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".zst":
            import pyarrow as pa  # its reader, unlike that of zstandard, notices a stream that ends too early

            with path.open("rb") as raw, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd") as unpacked:
                yield from io.BufferedReader(unpacked, _BLOCK)
        else:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
                yield from stream
    except (EOFError, OSError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:  # the system's, not that of the content
            raise
        codec = CODECS.get(path.suffix, "text")
        raise ValueError(f"{path}: not {codec}, damaged or truncated ({error}): compress the file again") from error


@contextmanager
def open_packed(path: Path, sink: Sink) -> Iterator[Write]:
    """Yield a function that writes bytes to the sink, compressed according to the path's extension."""
    if path.suffix == ".gz":
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, sink, mtime=0) as writer:
            yield writer.write
    elif path.suffix == ".zst":
        from zstandard import ZstdCompressor

        with ZstdCompressor().stream_writer(cast("IO[bytes]", sink), closefd=False) as writer:
            yield writer.write
    else:
        yield sink.write
