"""Lines of a shard, unpacked by the end of its name, and packed again in the same way, always to the same bytes."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, cast

from dragoman.data.durable import Sink
from dragoman.data.sniff import refuse

_BOM: Final = "\ufeff"
_LEVEL: Final = 6
_BLOCK: Final = 1 << 20


class Line(NamedTuple):
    """One line of text."""

    number: int
    """From 1."""
    text: str
    end: str
    """How it ended: with a newline or nothing, perhaps a carriage return before it."""


class Writer(Protocol):
    """Takes bytes."""

    def write(self, data: bytes, /) -> object: ...


def read_lines(path: Path) -> Iterator[Line]:
    """Those of a file."""
    return decoded(_raw_lines(path), str(path))


def decoded(lines: Iterable[bytes], name: str) -> Iterator[Line]:
    """Only a newline ends a line. What is no UTF-8 is an error that names the line."""
    for number, line in enumerate(lines, 1):
        if number == 1:
            refuse(name, line)
        try:
            whole = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: line {number} is not UTF-8; convert it: iconv -f <ENCODING> -t UTF-8") from error
        text = whole.rstrip("\r\n")
        yield Line(number, text.removeprefix(_BOM) if number == 1 else text, whole[len(text) :])


@contextmanager
def packed(path: Path, sink: Sink) -> Iterator[Writer]:
    """Takes what is to stand in a file of this name."""
    if path.suffix == ".gz":
        with gzip.GzipFile("", "wb", _LEVEL, sink, mtime=0) as writer:
            yield writer
    elif path.suffix == ".zst":
        from zstandard import ZstdCompressor

        with ZstdCompressor().stream_writer(cast("IO[bytes]", sink), closefd=False) as writer:
            yield writer
    else:
        yield sink


def _raw_lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".zst":
        yield from _cut(_unpacked(path))
    elif path.suffix == ".gz":
        try:
            with gzip.open(path) as stream:
                yield from stream
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: it is no gzip file, or damaged or cut short ({error}): pack it again") from error
    else:
        with path.open("rb") as stream:
            yield from stream


def _unpacked(path: Path) -> Iterator[bytes]:
    """Arrow's reader, unlike that of zstandard, notices a stream that ends too early."""
    import pyarrow as pa

    with path.open("rb") as raw, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd") as stream:
        try:
            while block := stream.read(_BLOCK):
                yield block
        except OSError as error:
            raise ValueError(f"{path}: it is no zstd file, or damaged or cut short ({error}): pack it again") from error


def _cut(blocks: Iterable[bytes]) -> Iterator[bytes]:
    begun = b""
    for block in blocks:
        *lines, begun = (begun + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if begun:
        yield begun
