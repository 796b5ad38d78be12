"""Read bytes from a local path, an fsspec URL or standard input, decompressed according to the extension.

A file that is not UTF-8 text is rejected with a message that names its likely format and how to convert it.
"""

import difflib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from dragoman.io.remote_path import AnyPath

STANDARD_INPUT: Final = "-"
BLOCK: Final = 1 << 20
"""Number of bytes per read."""

CODECS: Final = {".gz": "gzip", ".zst": "zstd"}
"""Arrow's name of the compression codec, by file extension."""

MAGIC: Final = {
    b"\x1f\x8b": ("gzip", "rename the file to .gz, or decompress it with gunzip"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "rename the file to .zst, or decompress it with unzstd"),
    b"PK\x03\x04": ("a zip archive", "extract it with unzip"),
    b"BZh": ("bzip2", "decompress it with bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "decompress it with unxz"),
    b"PAR1": ("Parquet", "rename the file to .parquet, or give --format parquet (in a recipe, format: parquet)"),
    b"ARROW1": ("an Arrow file", "convert it to Parquet"),
    b"\x89PNG": ("a PNG picture", "give a text file"),
    b"\xff\xd8\xff": ("a JPEG picture", "give a text file"),
    b"%PDF-": ("a PDF", "extract its text with pdftotext"),
    b"SQLite format 3": ("an SQLite database", "export it as TSV"),
    b"\xff\xfe\x00\x00": ("UTF-32 text", "convert it with iconv -f UTF-32 -t UTF-8"),
    b"\xff\xfe": ("UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
}
"""The format of a file and the suggested fix, by the first bytes of the file."""

MANY_NULS: Final = 0.1
"""Fraction of NUL bytes above which a file is not text."""

MANY_INVALID: Final = 0.05
FEWEST_INVALID: Final = 10
"""A file is rejected as not UTF-8 if the invalid lines are at least this many, at least the fraction MANY_INVALID of
all lines, and at least half of the lines that are not ASCII. Otherwise, cleaning drops and counts invalid lines."""

SAMPLE: Final = 1 << 16

_HIGH = re.compile(rb"[\x80-\xff]+")


def file_identity(address: str | Path) -> object:
    """Return a value that is the same for all names of a file: relative and absolute paths, and links."""
    if address == STANDARD_INPUT or "://" in str(address):
        return str(address)
    try:
        status = os.stat(address)  # noqa: PTH116  # a Path raises other errors for names that no file can have
    except OSError:
        return os.path.realpath(address)
    except ValueError:
        return str(address)
    return status.st_dev, status.st_ino


def is_same_file(one: str | Path, other: str | Path) -> bool:
    """Return True if two names are those of one file."""
    return file_identity(one) == file_identity(other)


def uncompressed_suffix(address: str | AnyPath) -> str:
    """Return the file extension, without a compression extension: .txt for a.txt.gz."""
    suffix = Path(str(address)).suffix
    return Path(str(address).removesuffix(suffix)).suffix if suffix in CODECS else suffix


def read_blocks(address: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a text file; raise ValueError if the first block is not UTF-8 text."""
    blocks = read_decompressed(address)
    first = next(blocks, b"")
    check_text(address, first)
    yield first
    yield from blocks


def read_decompressed(address: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file of any kind."""
    codec = CODECS.get(Path(address).suffix)
    with open_seekable(address) as raw:
        # Arrow's reader, unlike most, notices a compressed stream that ends too early.
        if codec is not None:
            import pyarrow as pa  # here, since running a model needs none

        stream = raw if codec is None else pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)
        while block := stream.read(BLOCK):
            yield block


@contextmanager
def open_seekable(address: str) -> Iterator[BinaryIO]:
    """Open a file without decompression, for formats that need random access."""
    try:
        with _open(address) as stream:
            yield stream
    except FileNotFoundError:
        raise ValueError(f"{address}: there is no such file{suggest_path(address)}") from None
    except IsADirectoryError:
        raise ValueError(f"{address}: this is a folder; give a file in this folder") from None
    except PermissionError:
        raise ValueError(f"{address}: no permission to read the file; change its mode or owner") from None
    except OSError as error:
        suffix = Path(address).suffix
        if suffix in CODECS and _is_plain_text(address):
            raise ValueError(f"{address}: the file is not compressed: remove {suffix} from its name") from error
        fix = "download or compress the file again" if suffix in CODECS else "try again"
        raise ValueError(f"{address}: the file cannot be read completely ({error}); {fix}") from error


def _open(address: str) -> AbstractContextManager[BinaryIO]:
    if address == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    if "://" not in address:
        return closing(Path(address).open("rb"))
    try:
        import fsspec

        return closing(fsspec.open(address, "rb").open())
    except (ImportError, ValueError) as error:
        raise ValueError(f"{address}: no fsspec package for this URL ({error}): install it") from error


def suggest_path(address: str) -> str:
    """Return the end of a message about a file that does not exist: the nearest name in its folder, if any."""
    path = Path(address)
    if "://" in address or not path.parent.is_dir():
        return "; check the path"
    near = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.75)
    return f"; did you mean {path.parent / near[0]}?" if near else "; check the path"


def _is_plain_text(address: str) -> bool:
    """Return True if the first block of a file is UTF-8 text, so that the file is not compressed."""
    try:
        with _open(address) as stream:
            start = stream.read(BLOCK)
    except OSError:
        return False
    whole_lines = start.rpartition(b"\n")[0] or start  # the last may be cut within a letter
    return bool(start) and b"\0" not in start and is_utf8(whole_lines)


def check_text(address: str, block: bytes) -> None:
    """Raise ValueError with the likely format if the first block of a file is not UTF-8 text."""
    if not block:
        raise ValueError(f"{address}: the file is empty; give a file with one sentence per line")
    sample = block[:SAMPLE]
    looks = next((look for magic, look in MAGIC.items() if block.startswith(magic)), None)
    if looks is None and sample.count(0) > MANY_NULS * len(sample):
        looks = _describe_nuls(sample)
    if looks is not None:
        raise ValueError(f"{address}: this looks like {looks[0]}, not UTF-8 text; {looks[1]}")
    lines = sample.split(b"\n")[:-1]  # the last may be cut within a letter
    beyond_ascii = [line for line in lines if not line.isascii()]
    invalid = [line for line in beyond_ascii if not is_utf8(line)]
    if len(invalid) >= max(FEWEST_INVALID, MANY_INVALID * len(lines), len(beyond_ascii) / 2):
        count = f"{len(invalid)} of the first {len(lines)} lines are not UTF-8"
        raise ValueError(f"{address}: {count}; {_suggest_conversion(invalid)}")


def _describe_nuls(sample: bytes) -> tuple[str, str]:
    """Return the likely format and the fix for a file with NULs: in UTF-16, Latin letters have a NUL byte each."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) > 20 * min(even, odd):
        order = "BE" if even > odd else "LE"
        return f"UTF-16{order} text", f"convert it with iconv -f UTF-16{order} -t UTF-8"
    return "a binary file", "give a text file with one sentence per line"


def is_utf8(line: bytes) -> bool:
    """Return True if the line is valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _suggest_conversion(invalid: list[bytes]) -> str:
    """Return how to convert the file to UTF-8: in Latin-1, most runs of non-ASCII bytes have one or two bytes."""
    runs = [len(run) for line in invalid for run in _HIGH.findall(line)]
    if sum(length <= 2 for length in runs) > len(runs) / 2:
        return "if the file is Latin-1 or Windows-1252, convert it with iconv -f WINDOWS-1252 -t UTF-8"
    return "determine the encoding and convert the file with iconv -f ENCODING -t UTF-8"
