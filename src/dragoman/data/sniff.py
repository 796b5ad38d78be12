"""What a file looks like when it is not the UTF-8 text it was taken for."""

import re
from typing import Final

MAGIC: Final = {
    b"\x1f\x8b": ("gzip", "name it .gz, or unpack it"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "name it .zst, or unpack it"),
    b"PK\x03\x04": ("a zip archive", "unpack it"),
    b"BZh": ("bzip2", "unpack it with bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "unpack it with unxz"),
    b"PAR1": ("Parquet", "name it .parquet, or give --format parquet (in a recipe, format: parquet)"),
    b"ARROW1": ("an Arrow file", "write it as Parquet"),
    b"%PDF-": ("a PDF", "extract its text"),
    b"SQLite format 3": ("an SQLite database", "export it as TSV"),
    b"\xff\xfe\x00\x00": ("UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8"),
    b"\xff\xfe": ("UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
}

MANY_NULS: Final = 0.1
"""Share of NUL bytes from which on a file is not text with accidents but something else."""

MANY_INVALID: Final = 0.05
FEWEST_INVALID: Final = 10
"""A file is in another encoding when at least this many of the lines looked at are not UTF-8, and this share of
them, and most of those that are not plain ASCII. Fewer are accidents: the cleaning drops and counts them."""

SAMPLE: Final = 1 << 16

_HIGH = re.compile(rb"[\x80-\xff]+")


def refuse(address: str, block: bytes) -> None:
    """Raise, naming what it looks like, when the first block of a file is not UTF-8 text."""
    if not block:
        raise ValueError(f"{address}: the file is empty; each line should be a sentence")
    for magic, (kind, mend) in MAGIC.items():
        if block.startswith(magic):
            raise ValueError(f"{address}: this looks like {kind}, not UTF-8 text; {mend}")
    sample = block[:SAMPLE]
    if sample.count(0) > MANY_NULS * len(sample):
        kind, mend = _kind_with_nuls(sample)
        raise ValueError(f"{address}: this looks like {kind}, not UTF-8 text; {mend}")
    _refuse_other_encoding(address, sample)


def _kind_with_nuls(sample: bytes) -> tuple[str, str]:
    """Latin letters in UTF-16 have a NUL at every second byte; a binary file has them anywhere."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) > 20 * min(even, odd):
        order = "BE" if even > odd else "LE"
        return f"UTF-16{order} text", f"convert it: iconv -f UTF-16{order} -t UTF-8"
    return "a binary file", "give the text itself, one sentence a line"


def _refuse_other_encoding(address: str, sample: bytes) -> None:
    lines = sample.split(b"\n")[:-1]  # the last may be cut within a letter
    beyond_ascii = [line for line in lines if not line.isascii()]
    invalid = [line for line in beyond_ascii if not is_utf8(line)]
    many = max(FEWEST_INVALID, MANY_INVALID * len(lines), len(beyond_ascii) / 2)
    if len(invalid) >= many:
        raise ValueError(f"{address}: {len(invalid)} of its first {len(lines)} lines are not UTF-8; {_guess(invalid)}")


def is_utf8(line: bytes) -> bool:
    """Whether the line can be decoded."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _guess(invalid: list[bytes]) -> str:
    """In Western European text letters beyond ASCII stand alone, or in twos, between ASCII letters."""
    runs = [len(run) for line in invalid for run in _HIGH.findall(line)]
    if sum(length <= 2 for length in runs) > len(runs) / 2:
        return "if it is Latin-1 or Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8"
    return "find out its encoding and convert it: iconv -f <ENCODING> -t UTF-8"
