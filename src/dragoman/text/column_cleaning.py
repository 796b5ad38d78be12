"""Clean the source or target lines of a chunk: decode and fix each line, and find its problems."""

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64, UInt8, UInt32
from numpy import ndarray

from dragoman.text.cleaning import AFTER_SPACE, ALARMING, SUSPECT, UNSTABLE, CleanConfig, Problem, find_problems

Texts: TypeAlias = pa.LargeStringArray
Rows = Bool[ndarray, " lines"]
Problems = UInt32[ndarray, " lines"]
"""The problems of each line, as a bit set."""

_UNREADABLE = Problem.EMPTY_SIDE.bit | Problem.TOO_LONG.bit | Problem.INVALID_UTF8.bit | Problem.LONE_SURROGATE.bit


class CleanColumn(NamedTuple):
    """Cleaned lines, and a bit set of problems for each line; a line that is not UTF-8 is empty."""

    text: Texts
    problems: Problems


def clean_column(raw: pa.LargeBinaryArray, settings: CleanConfig) -> CleanColumn:
    """Clean all lines; only lines that a vectorised search finds suspicious become Python objects."""
    problems = np.zeros(len(raw), np.uint32)
    num_bytes = pc.binary_length(raw).to_numpy(zero_copy_only=False)
    problems[num_bytes == 0] |= Problem.EMPTY_SIDE.bit
    problems[num_bytes > 4 * settings.max_characters] |= Problem.TOO_LONG.bit  # no character takes more than 4
    raw = _empty_rows(raw, problems > 0)
    for row in _find_undecodable(raw):
        problems[row] |= _undecodable_problem(raw[row].as_py())
    text = _remove_returns(_empty_rows(raw, problems > 0).cast(pa.large_string()), problems)
    rows = _find_suspicious(text)
    text = _trim(text, ~rows, problems, settings)
    if rows.any():
        cleaned = [find_problems(line, settings) for line in text.filter(pa.array(rows)).to_pylist()]
        problems[rows] |= np.array([bits for _, bits in cleaned], np.uint32)
        lines = pa.array([line for line, _ in cleaned], pa.large_string())
        text = pc.replace_with_mask(text, pa.array(rows), lines)
    length = pc.utf8_length(text).to_numpy(zero_copy_only=False)
    problems[length > settings.max_characters] |= Problem.TOO_LONG.bit
    problems[_is_blank(text) & (problems & _UNREADABLE == 0)] |= Problem.WHITESPACE.bit
    return CleanColumn(text, problems)


def _empty_rows(raw: pa.LargeBinaryArray, rows: Rows) -> pa.LargeBinaryArray:
    return pc.if_else(pa.array(rows), pa.scalar(b"", pa.large_binary()), raw) if rows.any() else raw


def _find_undecodable(raw: pa.LargeBinaryArray, first: int = 0) -> list[int]:
    """Return the indices of lines that are not UTF-8, by bisection, since most chunks have no such line."""
    try:
        raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        if len(raw) == 1:
            return [first]
        half = len(raw) // 2
        return _find_undecodable(raw[:half], first) + _find_undecodable(raw[half:], first + half)
    return []


def _undecodable_problem(line: bytes) -> np.uint32:
    try:
        line.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return Problem.INVALID_UTF8.bit
    return Problem.LONE_SURROGATE.bit


def _remove_returns(text: Texts, problems: Problems) -> Texts:
    """Remove trailing carriage returns; vectorised, because every line of a Windows file has a carriage return."""
    returned = pc.ends_with(text, "\r").to_numpy(zero_copy_only=False)
    if not returned.any():
        return text
    problems[returned] |= Problem.CRLF.bit
    trimmed = pc.utf8_rtrim(text, "\r")
    problems[returned & (pc.utf8_length(trimmed).to_numpy(zero_copy_only=False) == 0)] |= Problem.EMPTY_SIDE.bit
    return trimmed


def _trim(text: Texts, rows: Rows, problems: Problems, settings: CleanConfig) -> Texts:
    """Strip spaces from the given rows; vectorised, because some files have a space at the end of every line."""
    trimmed = pc.utf8_trim_whitespace(text)
    padded = rows & pc.not_equal(text, trimmed).to_numpy(zero_copy_only=False)
    if not padded.any():
        return text
    problems[padded & ~_is_blank(text)] |= Problem.SPACING.bit
    return pc.if_else(pa.array(padded), trimmed, text) if settings.policy(Problem.SPACING) == "fix" else text


def _is_blank(text: Texts) -> Rows:
    return np.asarray(pc.equal(pc.binary_length(pc.utf8_trim_whitespace(text)), 0))


def _find_suspicious(text: Texts) -> Rows:
    """Return a mask of lines that may have a problem, by a vectorised test of all bytes and a regex search."""
    letters, bounds = _letters(text)
    is_odd_space = letters == ord(" ")
    is_odd_space[:-1] &= AFTER_SPACE[letters[1:]]
    rows = _rows_with(ALARMING[letters] | is_odd_space, bounds)
    for row in np.flatnonzero(rows):
        rows[row] = SUSPECT.search(letters.data, bounds[row], bounds[row + 1]) is not None
    unstable = _rows_with(UNSTABLE[letters], bounds)
    if unstable.any():
        some = text.filter(pa.array(unstable))
        rows[unstable] |= pc.not_equal(some, pc.utf8_normalize(some, form="NFC")).to_numpy(zero_copy_only=False)
    return rows


def _letters(text: Texts) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " ends"]]:
    """Return the concatenated bytes of all lines, and the offsets where lines start and end."""
    _, offsets, letters = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    return np.frombuffer(letters or b"", np.uint8)[first:last], bounds - first


def _rows_with(flags: Bool[ndarray, " bytes"], bounds: Int64[ndarray, " ends"]) -> Rows:
    """Return a mask of the lines that have a flagged byte."""
    rows = np.zeros(len(bounds) - 1, bool)
    filled = bounds[1:] > bounds[:-1]
    if filled.any():
        rows[filled] = np.logical_or.reduceat(flags, bounds[:-1][filled])
    return rows
