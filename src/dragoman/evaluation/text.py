"""A text file as the sentences of a test set: every line kept, nothing mended, so that a score is of what is there."""

import hashlib
from dataclasses import dataclass

from pydantic import Field

from dragoman.config import Config
from dragoman.data.stream import read_blocks


class TextFile(Config):
    """Which text it was."""

    file: str = Field(description="the path or address, as it was given")
    lines: int = Field(description="sentences in it")
    sha256: str = Field(description="of its bytes, unpacked: the same text has the same hash, packed or not")


@dataclass(frozen=True)
class Text:
    """A file that has been read."""

    file: str
    lines: list[str]
    sha256: str

    @property
    def record(self) -> TextFile:
        """For a report."""
        return TextFile(file=self.file, lines=len(self.lines), sha256=self.sha256)


def read_text(address: str) -> Text:
    """The lines of a path, of an address fsspec can open or, for -, of standard input; .gz and .zst are unpacked."""
    content = b"".join(read_blocks(address))
    rows = content.removesuffix(b"\n").split(b"\n")
    lines = [_decoded(row, address, number) for number, row in enumerate(rows, 1)]
    return Text(address, lines, hashlib.sha256(content).hexdigest())


def require_same_length(one: Text, other: Text) -> None:
    """Raise, with both counts, if two files cannot be the two sides of the same sentences."""
    if len(one.lines) != len(other.lines):
        raise ValueError(
            f"{one.file} has {len(one.lines):,} lines but {other.file} has {len(other.lines):,}: "
            "they must go line by line"
        )


def _decoded(row: bytes, address: str, number: int) -> str:
    try:
        return row.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{address}: line {number:,} is not UTF-8 (at its byte {error.start + 1}); convert the file: "
            "iconv -f <ENCODING> -t UTF-8"
        ) from error
