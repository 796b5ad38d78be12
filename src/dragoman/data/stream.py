"""Bytes from any address: a local path, whatever fsspec can open, standard input; unpacked by suffix."""

import difflib
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import fsspec
import pyarrow as pa

from dragoman.data.packed import PACKED
from dragoman.data.sniff import is_utf8, refuse

STANDARD_INPUT: Final = "-"
BLOCK: Final = 1 << 20
"""Bytes read at a time."""


@runtime_checkable
class Readable(Protocol):
    """What the streams of Python, Arrow and fsspec have in common."""

    def read(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...


def read_blocks(address: str) -> Iterator[bytes]:
    """The unpacked bytes of a text file. What is clearly no UTF-8 text is refused after the first block."""
    with _explained(address), _opened(address) as stream:
        block = stream.read(BLOCK)
        refuse(address, block)
        while block:
            yield block
            block = stream.read(BLOCK)


@contextmanager
def seekable(address: str) -> Iterator[Readable]:
    """The file as it is, for formats that are not read from front to back."""
    with _explained(address), _raw(address) as stream:
        yield stream


@contextmanager
def _opened(address: str) -> Iterator[Readable]:
    codec = PACKED.get(Path(address).suffix)
    with _raw(address) as raw:
        if codec is None:
            yield raw
        else:  # Arrow's reader, unlike most, notices a stream that ends too early
            with pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec) as unpacked:
                yield unpacked


@contextmanager
def _raw(address: str) -> Iterator[Readable]:
    if address == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with closing(_located(address)) as stream:
        yield stream


def _located(address: str) -> Readable:
    if "://" not in address:
        return Path(address).open("rb")
    try:
        opened: Readable = fsspec.open(address, "rb").open()
    except (ImportError, ValueError) as error:
        raise ValueError(f"{address}: no way to open this kind of address is installed: {error}") from error
    return opened


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """What the system says of a file, said with the file's name and the mend."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"{address}: there is no such file{_nearest(address)}") from None
    except IsADirectoryError:
        raise ValueError(f"{address}: this is a folder; name the file inside it") from None
    except PermissionError:
        raise ValueError(f"{address}: no permission to read it; change its mode or its owner") from None
    except OSError as error:
        suffix = Path(address).suffix
        if suffix in PACKED and _is_plain(address):
            raise ValueError(f"{address}: this is plain text, not packed: take {suffix} off its name") from error
        mend = "it is damaged or cut short, so fetch or pack it again" if suffix in PACKED else "try again"
        raise ValueError(f"{address}: it cannot be read to its end ({error}); {mend}") from error


def _is_plain(address: str) -> bool:
    """Whether it begins like text: what is packed begins with bytes that no UTF-8 has there."""
    try:
        with _raw(address) as stream:
            start = stream.read(BLOCK)
    except OSError:
        return False
    whole_lines = start.rpartition(b"\n")[0] or start  # the last may be cut within a letter
    return bool(start) and b"\0" not in start and is_utf8(whole_lines)


def _nearest(address: str) -> str:
    path = Path(address)
    if "://" in address or not path.parent.is_dir():
        return ""
    near = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.75)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
