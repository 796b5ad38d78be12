"""One side of a chunk, mended: bytes become text, and what is wrong with each line is noted."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64, UInt8, UInt32
from numpy import ndarray

from dragoman.data.characters import AFTER_SPACE, ALARMING, SUSPECT, UNSTABLE, look
from dragoman.data.problem import CleanConfig, Problem

_SPACE = ord(" ")
_UNREADABLE = Problem.EMPTY_SIDE.bit | Problem.TOO_LONG.bit | Problem.INVALID_UTF8.bit | Problem.LONE_SURROGATE.bit


@dataclass(frozen=True)
class Side:
    """Lines of text, the unreadable ones empty, and the problems of each as a set of bits."""

    text: pa.LargeStringArray
    problems: UInt32[ndarray, " lines"]


def mend(raw: pa.LargeBinaryArray, settings: CleanConfig) -> Side:
    """Only lines that a search through all bytes at once finds suspicious become Python objects."""
    problems = np.zeros(len(raw), np.uint32)
    num_bytes = pc.binary_length(raw).to_numpy(zero_copy_only=False)
    problems[num_bytes == 0] |= Problem.EMPTY_SIDE.bit
    problems[num_bytes > 4 * settings.max_characters] |= Problem.TOO_LONG.bit  # no character takes more than 4
    raw = _emptied(raw, problems > 0)
    for row in _undecodable(raw):
        problems[row] |= _why_undecodable(raw[row].as_py())
    text = _emptied(raw, problems > 0).cast(pa.large_string())
    text = _without_returns(text, problems)
    text = _looked_at(text, problems, settings)
    length = pc.utf8_length(text).to_numpy(zero_copy_only=False)
    problems[length > settings.max_characters] |= Problem.TOO_LONG.bit
    problems[_blank(text) & (problems & _UNREADABLE == 0)] |= Problem.WHITESPACE.bit
    return Side(text, problems)


def _emptied(raw: pa.LargeBinaryArray, rows: Bool[ndarray, " lines"]) -> pa.LargeBinaryArray:
    return pc.if_else(pa.array(rows), pa.scalar(b"", pa.large_binary()), raw) if rows.any() else raw


def _undecodable(raw: pa.LargeBinaryArray, first: int = 0) -> list[int]:
    """The rows that are not UTF-8, found by halves: most chunks have none, and those that have, have few."""
    try:
        raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        if len(raw) == 1:
            return [first]
        half = len(raw) // 2
        return _undecodable(raw[:half], first) + _undecodable(raw[half:], first + half)
    return []


def _why_undecodable(line: bytes) -> np.uint32:
    try:
        line.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return Problem.INVALID_UTF8.bit
    return Problem.LONE_SURROGATE.bit


def _without_returns(text: pa.LargeStringArray, problems: UInt32[ndarray, " lines"]) -> pa.LargeStringArray:
    """Files from Windows have a carriage return at the end of every line, so this one is mended all at once."""
    returned = pc.ends_with(text, "\r").to_numpy(zero_copy_only=False)
    if not returned.any():
        return text
    problems[returned] |= Problem.CRLF.bit
    trimmed = pc.utf8_rtrim(text, "\r")
    problems[returned & (pc.utf8_length(trimmed).to_numpy(zero_copy_only=False) == 0)] |= Problem.EMPTY_SIDE.bit
    return trimmed


def _looked_at(
    text: pa.LargeStringArray, problems: UInt32[ndarray, " lines"], settings: CleanConfig
) -> pa.LargeStringArray:
    rows = _suspicious(text)
    text = _trimmed(text, ~rows, problems, settings)
    if not rows.any():
        return text
    looked = [look(line, settings) for line in text.filter(pa.array(rows)).to_pylist()]
    problems[rows] |= np.array([found for _, found in looked], np.uint32)
    return pc.replace_with_mask(text, pa.array(rows), pa.array([line for line, _ in looked], pa.large_string()))


def _trimmed(
    text: pa.LargeStringArray, rows: Bool[ndarray, " lines"], problems: UInt32[ndarray, " lines"], settings: CleanConfig
) -> pa.LargeStringArray:
    """Some files have a space at the end of every line too, so of those with nothing else it is taken at once."""
    trimmed = pc.utf8_trim_whitespace(text)
    padded = rows & pc.not_equal(text, trimmed).to_numpy(zero_copy_only=False)
    if not padded.any():
        return text
    problems[padded & ~_blank(text)] |= Problem.SPACING.bit
    return pc.if_else(pa.array(padded), trimmed, text) if settings.policy(Problem.SPACING) == "fix" else text


def _blank(text: pa.LargeStringArray) -> Bool[ndarray, " lines"]:
    blank: ndarray = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(text)), 0).to_numpy(zero_copy_only=False)
    return blank


def _suspicious(text: pa.LargeStringArray) -> Bool[ndarray, " lines"]:
    """Which lines need a closer look, by a look at all bytes at once and a search in the few lines this leaves."""
    letters, bounds = _letters(text)
    rows = _have(ALARMING[letters] | _before(letters, _SPACE, AFTER_SPACE), bounds)
    for row in np.flatnonzero(rows):
        rows[row] = SUSPECT.search(letters.data, bounds[row], bounds[row + 1]) is not None
    rows |= _not_nfc(text, _have(UNSTABLE[letters], bounds))
    return rows


def _letters(text: pa.LargeStringArray) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " ends"]]:
    """The bytes of all lines, and where each line starts and ends in them."""
    _, offsets, letters = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    return np.frombuffer(letters or b"", np.uint8)[first:last], bounds - first


def _before(letters: UInt8[ndarray, " bytes"], first: int, second: Bool[ndarray, " 256"]) -> Bool[ndarray, " bytes"]:
    """Where one byte stands before any of some others."""
    there: ndarray = letters == first
    there[:-1] &= second[letters[1:]]
    return there


def _have(flags: Bool[ndarray, " bytes"], bounds: Int64[ndarray, " ends"]) -> Bool[ndarray, " lines"]:
    """Which lines have a flagged byte."""
    rows = np.zeros(len(bounds) - 1, bool)
    filled = bounds[1:] > bounds[:-1]
    if filled.any():
        rows[filled] = np.logical_or.reduceat(flags, bounds[:-1][filled])
    return rows


def _not_nfc(text: pa.LargeStringArray, unstable: Bool[ndarray, " lines"]) -> Bool[ndarray, " lines"]:
    """Which of the lines that could be otherwise are not as NFC has them."""
    rows = unstable.copy()
    if rows.any():
        some = text.filter(pa.array(rows))
        rows[rows] = pc.not_equal(some, pc.utf8_normalize(some, form="NFC"))
    return rows
