"""Lines of text as Arrow arrays, in bounded memory: a newline ends a line and nothing else does.

U+2028, U+2029, NEL, carriage returns and form feeds are part of their line: a reader that cuts there puts the two sides
of a corpus out of step.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.data.problem import LONGEST_LINE

_NEWLINE = ord("\n")


@dataclass(frozen=True)
class Lines:
    """Some lines in a row, without their ends."""

    text: pa.LargeBinaryArray
    unterminated: bool
    """The last of them is the last of the file, and lacks its newline."""


def split_lines(blocks: Iterable[bytes]) -> Iterator[Lines]:
    """The lines of a stream of bytes, a block at a time."""
    begun = b""
    for block in blocks:
        text = begun + block
        end = text.rfind(b"\n") + 1
        begun = text[end : end + LONGEST_LINE + 1]
        if end:
            yield Lines(_cut(text[:end]), unterminated=False)
    if begun:
        yield Lines(pa.array([begun], pa.large_binary()), unterminated=True)


def stubbed(text: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The lines, those too long to hold cut to stubs."""
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    return text if longest <= LONGEST_LINE else pc.binary_slice(text, 0, LONGEST_LINE + 1)


def is_stub(text: pa.LargeBinaryArray) -> pa.BooleanArray:
    """Which lines were too long to hold."""
    return pc.greater(pc.binary_length(text), LONGEST_LINE)


def _cut(text: bytes) -> pa.LargeBinaryArray:
    """Text that ends with a newline, cut at each."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends - np.arange(len(ends))  # as they are once the ends are taken out
    letters = pa.py_buffer(text.replace(b"\n", b""))
    return stubbed(
        pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), letters])
    )
