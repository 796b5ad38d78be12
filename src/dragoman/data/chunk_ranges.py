"""The chunks of two text files as byte ranges: one process looks for newlines, and several processes read the chunks.

The chunks are those of `read_chunks`. Compressed files, URLs and standard input cannot be read from the middle.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Int64
from numpy import ndarray

from dragoman.data.corpus import Chunk, ChunkCutter, CorpusConfig
from dragoman.data.corpus_formats import Lines, different_lengths, split_lines
from dragoman.data.shards import load_batch, save_batch
from dragoman.io.streams import BLOCK, CODECS, STANDARD_INPUT, read_blocks
from dragoman.text.cleaning import LONGEST_LINE

_RANGES: Final = "ranges.arrow"

Ends = Int64[ndarray, " lines"]
"""The position in a file after each line."""


class ChunkRange(NamedTuple):
    """The place of a chunk in two text files, in lines and bytes."""

    first_line: int
    num_lines: int
    source_begin: int
    source_end: int
    target_begin: int
    target_end: int


def has_ranges(corpus: CorpusConfig) -> bool:
    """Return True if the chunks of a corpus are byte ranges: two local text files that are not compressed."""
    files = [name for name in (corpus.source, corpus.target) if name is not None]
    is_plain = all(name != STANDARD_INPUT and "://" not in name and Path(name).suffix not in CODECS for name in files)
    return len(files) == 2 and is_plain and all(Path(name).is_file() for name in files) and corpus.links is None


def find_ranges(source: str, target: str, lines_per_chunk: int) -> Iterator[ChunkRange]:
    """Yield the chunks of two text files; raise ValueError if the files have different numbers of lines."""
    cutter = ChunkCutter(lines_per_chunk)
    begin = before = (0, 0)  # where the chunk begins in each file, and where the block of lines does
    first_line = num_lines = 0
    for ends in _paired_ends(source, target):
        lengths = [np.diff(side, prepend=start) - 1 for side, start in zip(ends, before, strict=True)]
        sizes = sum(np.minimum(side, LONGEST_LINE + 1) for side in lengths)
        before = (int(ends[0][-1]), int(ends[1][-1]))
        for start, end, is_last in cutter.cut(np.cumsum(sizes)):
            num_lines += end - start
            if is_last:
                at = (int(ends[0][end - 1]), int(ends[1][end - 1]))
                yield ChunkRange(first_line, num_lines, begin[0], at[0], begin[1], at[1])
                first_line, num_lines, begin = first_line + num_lines, 0, at
    if num_lines:
        yield ChunkRange(first_line, num_lines, begin[0], before[0], begin[1], before[1])


def _paired_ends(source: str, target: str) -> Iterator[tuple[Ends, Ends]]:
    """Yield the ends of the same lines in both files."""
    left, right = _line_ends(source), _line_ends(target)
    here, there = next(left, None), next(right, None)
    num_pairs = 0
    while here is not None and there is not None:
        n = min(len(here), len(there))
        num_pairs += n
        yield here[:n], there[:n]
        here = here[n:] if len(here) > n else next(left, None)
        there = there[n:] if len(there) > n else next(right, None)
    if here is not None or there is not None:
        more = [
            len(rest if rest is not None else ()) + sum(map(len, later))
            for rest, later in ((here, left), (there, right))
        ]
        raise different_lengths(source, target, num_pairs + more[0], num_pairs + more[1])


def _line_ends(address: str) -> Iterator[Ends]:
    """Yield the ends of the lines of a text file; a line without a newline ends with the file."""
    position = last = 0
    for block in read_blocks(address):
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + (position + 1)
        position += len(block)
        if len(ends):
            last = int(ends[-1])
            yield ends
    if position > last:
        yield np.array([position])


def save_ranges(work: Path, corpus: CorpusConfig, ranges: list[ChunkRange]) -> None:
    """Save the byte ranges of a corpus in its work folder, with the paths of its files."""
    files = {"source": str(Path(corpus.source).resolve()), "target": str(Path(str(corpus.target)).resolve())}
    columns = dict(zip(ChunkRange._fields, map(pa.array, zip(*ranges, strict=True)), strict=True))
    save_batch(work / _RANGES, pa.record_batch(columns, metadata=files))


def load_range(work: Path, index: int) -> Chunk | None:
    """Return a chunk by its byte ranges; None if the work folder has no ranges."""
    if not (work / _RANGES).exists():
        return None
    batch = load_batch(work / _RANGES)
    chunk = ChunkRange(*(batch.column(name)[index].as_py() for name in ChunkRange._fields))
    files = [batch.schema.metadata[side].decode() for side in (b"source", b"target")]
    source = _read_lines(files[0], chunk.source_begin, chunk.source_end)
    target = _read_lines(files[1], chunk.target_begin, chunk.target_end)
    for file, lines in zip(files, (source, target), strict=True):
        if len(lines.text) != chunk.num_lines:
            raise ValueError(f"{file}: the file has changed since its lines were counted: run the same command again")
    return Chunk(index, chunk.first_line, source.text, target.text, source.unterminated or target.unterminated)


def _read_lines(file: str, begin: int, end: int) -> Lines:
    lines = list(split_lines(_read_bytes(file, begin, end)))
    return Lines(pa.concat_arrays([each.text for each in lines]), lines[-1].unterminated)


def _read_bytes(file: str, begin: int, end: int) -> Iterator[bytes]:
    with Path(file).open("rb") as stream:
        stream.seek(begin)
        while (begin := stream.tell()) < end and (block := stream.read(min(BLOCK, end - begin))):
            yield block
