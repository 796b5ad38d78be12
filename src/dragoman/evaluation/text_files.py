"""Read the text files of a test set without changing the lines."""

import hashlib
from typing import NamedTuple

from pydantic import Field

from dragoman.config import Config
from dragoman.io.streams import is_same_file, read_blocks


class TextFileInfo(Config):
    """The address, size and hash of a text file."""

    file: str = Field(description="path or address, as given")
    lines: int = Field(description="number of lines")
    sha256: str = Field(description="SHA-256 of the decompressed text, one sentence per line")


class TextFile(NamedTuple):
    """A text file in memory: address, lines and hash."""

    file: str
    lines: list[str]
    sha256: str

    @property
    def info(self) -> TextFileInfo:
        """The description of the file for a report."""
        return TextFileInfo(file=self.file, lines=len(self.lines), sha256=self.sha256)


def read_text(address: str) -> TextFile:
    """Read the lines of a file, an fsspec URL or standard input (-); .gz and .zst files are decompressed."""
    content = b"".join(read_blocks(address))
    rows = content.removesuffix(b"\n").split(b"\n")
    lines = [_decode(row, address, number) for number, row in enumerate(rows, 1)]
    return TextFile(address, lines, hashlib.sha256(content).hexdigest())


def read_sides(
    source: str | None, target: str | None, pairs: str | None = None, fields: str | None = None
) -> tuple[TextFile, TextFile]:
    """Read both sides of a test set from two text files, or from a file of pairs such as TMX or CSV."""
    if pairs is None:
        if fields is not None:
            raise ValueError(f"--fields {fields} selects fields of --pairs: add --pairs FILE, or leave out --fields")
        if source is None or target is None:
            raise ValueError("one side is missing: give --source and --target, or a file of pairs with --pairs")
        if is_same_file(source, target):
            raise ValueError(f"--source and --target are both {source}: give the translations as --target")
        sides = read_text(source), read_text(target)
        require_same_length(*sides)
        return sides
    if source is not None or target is not None:
        raise ValueError(f"--pairs {pairs} contains both sides: leave out {'--source' if source else '--target'}")
    from dragoman.data.corpus import corpora_from_files, read_chunks  # here, since text files do not need pyarrow
    from dragoman.data.corpus_formats import join_lines

    (corpus,) = corpora_from_files("pairs", pairs=[pairs], fields=fields)
    rows: tuple[list[bytes], list[bytes]] = ([], [])
    for chunk in read_chunks(corpus, 10_000):
        rows[0].extend(chunk.source.to_pylist())
        rows[1].extend(chunk.target.to_pylist())
    texts = [[_decode(row, pairs, i) for i, row in enumerate(side, 1)] for side in rows]
    left, right = ([join_lines(text) for text in side] for side in texts)
    return _text_file(pairs, left), _text_file(pairs, right)


def _text_file(address: str, lines: list[str]) -> TextFile:
    content = "".join(f"{line}\n" for line in lines)
    return TextFile(address, lines, hashlib.sha256(content.encode()).hexdigest())


def require_same_length(one: TextFile, other: TextFile) -> None:
    """Raise ValueError if two files differ in the number of lines."""
    if len(one.lines) != len(other.lines):
        wrong = f"{one.file} has {len(one.lines):,} lines but {other.file} has {len(other.lines):,}"
        raise ValueError(f"{wrong}: give files with the same number of lines")


def _decode(row: bytes, address: str, number: int) -> str:
    try:
        return row.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        wrong = f"{address}: line {number:,} is not UTF-8 (at byte {error.start + 1} of the line)"
        raise ValueError(f"{wrong}: convert the file with iconv -f <ENCODING> -t UTF-8") from error
