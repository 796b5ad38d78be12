"""Clean sentence pairs: turn a chunk of raw pairs into clean text and a report.

In addition to the problems of lines (text/cleaning.py), this module finds the problems of pairs: an unusual ratio of
lengths, a target that is a copy of the source, and pairs that are also in a held-out file.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64, UInt32
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.corpus import Chunk, CorpusConfig, read_chunks
from dragoman.text.cleaning import CleanConfig, Problem
from dragoman.text.cleaning_report import EXAMPLES, CleaningReport, ProblemExample, excerpt
from dragoman.text.column_cleaning import Texts, clean_column

SPARE: Final = 10
"""Number of characters added to both lengths before the ratio is computed, since length ratios of short texts vary
widely ("ID", "Identifikationsnummer")."""

NARROWEST: Final = math.log(3.0)
WIDEST_UNKNOWN: Final = math.log(6.0)
SIGMAS: Final = 7.0
ENOUGH: Final = 100
"""The minimum number of pairs for an estimate of the length ratio."""

COPIES: Final = 0.2
"""The fraction of copied sentences above which copies count as part of the task, not as a problem."""

_LOWER_CASE_WORD = re.compile(r"(?<!\S)[\"'(«„“]?[^\W\d_A-Z]{2,}[.,;:!?)\"'»“”…]*(?!\S)")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_LINES_PER_CHUNK = 10_000
_SEPARATOR = "\x1f"  # in no clean text
_NO_TEXT = pa.nulls(0, pa.large_string())  # not `array`, which imports pandas where it is installed

Problems = UInt32[ndarray, " pairs"]


class LengthProfile(Config):
    """The accepted length ratios of a language pair; the default suits any two languages."""

    log_ratio: float = Field(0.0, description="median of log(target length / source length)")
    spread: float = Field(WIDEST_UNKNOWN, gt=0.0, description="largest accepted deviation from log_ratio")
    identical: float = Field(0.0, ge=0.0, le=1.0, description="fraction of pairs whose target copies a source sentence")
    num_pairs: int = Field(0, ge=0, description="number of pairs in the sample")


def estimate_profile(source: Texts, target: Texts) -> LengthProfile:
    """Return the length profile of clean pairs, estimated with medians, which are robust to outliers."""
    filled = pa.array(_filled(source, target))
    source, target = source.filter(filled), target.filter(filled)
    if len(source) < ENOUGH:
        return LengthProfile(num_pairs=len(source))
    ratios = log_ratios(source, target)
    middle = float(np.median(ratios))
    sigma = 1.4826 * float(np.median(np.abs(ratios - middle)))
    identical = float(np.mean(repeated(source, target)))
    spread = max(NARROWEST, SIGMAS * sigma)
    return LengthProfile(log_ratio=middle, spread=spread, identical=identical, num_pairs=len(source))


def log_ratios(source: Texts, target: Texts) -> Float64[ndarray, " pairs"]:
    """Return log(target length / source length) in characters, with SPARE added to both lengths."""
    lengths = [pc.utf8_length(side).to_numpy(zero_copy_only=False) + SPARE for side in (source, target)]
    return np.asarray(np.log(lengths[1] / lengths[0]))


def out_of_proportion(source: Texts, target: Texts, profile: LengthProfile) -> Bool[ndarray, " pairs"]:
    """Return a mask of the pairs whose length ratio is outside the profile."""
    return np.asarray(np.abs(log_ratios(source, target) - profile.log_ratio) > profile.spread)


def repeated(source: Texts, target: Texts) -> Bool[ndarray, " pairs"]:
    """Return a mask of the pairs whose target is a copy of its source; numbers, names and codes do not count."""
    rows: ndarray = pc.equal(source, target).to_numpy(zero_copy_only=False).copy()
    rows[rows] = [is_sentence(text) for text in source.filter(pa.array(rows)).to_pylist()]
    return rows


def is_sentence(text: str) -> bool:
    """Return True if a text has 3 or more lower-case words, or more than 10 East or Southeast Asian characters."""
    return len(_LOWER_CASE_WORD.findall(text)) >= 3 or len(_UNSPACED.findall(text)) > 10


class Leaks(NamedTuple):
    """For each pair, source and target, the index of the same text in the held-out sets; -1 if there is none."""

    pair: Int64[ndarray, " pairs"]
    source: Int64[ndarray, " pairs"]
    target: Int64[ndarray, " pairs"]
    files: tuple[tuple[str, int], ...]
    """The source file of each held-out corpus, and the cumulative number of lines."""

    def place(self, row: int) -> str:
        """Return the held-out file and line (from 1) that contain a pair, its source or its target."""
        index = next(int(side[row]) for side in (self.pair, self.source, self.target) if side[row] >= 0)
        ends = [end for _, end in self.files]
        file = bisect_right(ends, index)
        return f"{self.files[file][0]}, line {index - ([0, *ends][file]) + 1}"


class HeldOut(NamedTuple):
    """The lower-cased sentences of the development and test sets."""

    pairs: Texts
    sources: Texts
    targets: Texts
    files: tuple[tuple[str, int], ...]

    def find(self, source: Texts, target: Texts) -> Leaks:
        """Find the clean pairs, sources and targets that also occur in the held-out sets."""
        source, target = pc.utf8_lower(source), pc.utf8_lower(target)
        pair = _find_held_out(_join_sides(source, target), self.pairs)
        sides = (_find_held_out(source, self.sources), _find_held_out(target, self.targets))
        pair[(sides[0] < 0) | (sides[1] < 0)] = -1
        return Leaks(pair, *sides, self.files)


def hold_out(corpora: Sequence[CorpusConfig], settings: CleanConfig) -> HeldOut:
    """Read the held-out corpora into memory, cleaned like the training data."""
    sources, targets = [_NO_TEXT], [_NO_TEXT]
    files: list[tuple[str, int]] = []
    for corpus in corpora:
        for chunk in read_chunks(corpus, _LINES_PER_CHUNK):
            sources.append(pc.utf8_lower(clean_column(chunk.source, settings).text))
            targets.append(pc.utf8_lower(clean_column(chunk.target, settings).text))
        files.append((corpus.source, sum(map(len, sources))))
    source, target = pa.concat_arrays(sources), pa.concat_arrays(targets)
    return HeldOut(_join_sides(source, target), source, target, tuple(files))


def _join_sides(source: Texts, target: Texts) -> Texts:
    return pc.binary_join_element_wise(source, target, pa.scalar(_SEPARATOR, pa.large_string()))


def _find_held_out(text: Texts, held_out: Texts) -> Int64[ndarray, " pairs"]:
    """Return the index at which each text first occurs in `held_out`; -1 for absent and empty texts."""
    index: ndarray = pc.fill_null(pc.index_in(text, held_out), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    index[pc.equal(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)] = -1
    return index


class CleanPairs(NamedTuple):
    """The pairs that cleaning keeps, in order, and the cleaning report."""

    source: Texts
    target: Texts
    line: Int64[ndarray, " stayed"]
    """The line number of each pair in the corpus, from 0."""
    report: CleaningReport


def clean_pairs(
    chunk: Chunk, settings: CleanConfig, profile: LengthProfile, held_out: HeldOut | None = None
) -> CleanPairs:
    """Clean a chunk of pairs. This is a pure function: chunks can be cleaned in any process and order."""
    source, target = clean_column(chunk.source, settings), clean_column(chunk.target, settings)
    texts = source.text, target.text
    problems: ndarray = source.problems | target.problems
    both_empty = source.problems & target.problems & Problem.EMPTY_SIDE.bit != 0
    problems[both_empty] ^= Problem.EMPTY_SIDE.bit | Problem.BOTH_EMPTY.bit
    filled = _filled(*texts)
    problems[filled & out_of_proportion(*texts, profile)] |= Problem.LENGTH_RATIO.bit
    if profile.identical < COPIES:
        problems[filled & repeated(*texts)] |= Problem.IDENTICAL.bit
    if chunk.unterminated:
        problems[-1] |= Problem.UNTERMINATED.bit
    leaks = held_out.find(*texts) if held_out else None
    if leaks:
        is_leak = leaks.pair >= 0
        problems[is_leak] |= Problem.LEAK.bit
        problems[~is_leak & ((leaks.source >= 0) | (leaks.target >= 0))] |= Problem.LEAKED_SIDE.bit
    stays = problems & settings.bits("drop") == 0
    left, right = (text.filter(pa.array(stays)) for text in texts)
    report = _report(chunk, problems, settings, leaks)
    return CleanPairs(left, right, chunk.first_line + np.flatnonzero(stays), report)


def profile_of(sample: Chunk, settings: CleanConfig) -> LengthProfile:
    """Return the length profile of a corpus, estimated from a sample chunk."""
    return estimate_profile(clean_column(sample.source, settings).text, clean_column(sample.target, settings).text)


def _filled(source: Texts, target: Texts) -> Bool[ndarray, " pairs"]:
    """Return a mask of the pairs with text on both sides."""
    filled = pc.and_(pc.greater(pc.binary_length(source), 0), pc.greater(pc.binary_length(target), 0))
    return np.asarray(filled)


def _report(chunk: Chunk, problems: Problems, settings: CleanConfig, leaks: Leaks | None) -> CleaningReport:
    dropped = problems & settings.bits("drop") != 0
    fixed = ~dropped & (problems & settings.bits("fix") != 0)
    num_dropped, num_fixed = int(dropped.sum()), int(fixed.sum())
    counts, examples = {}, {}
    for problem in Problem:
        rows = np.flatnonzero(problems & problem.bit).tolist()
        if rows:
            counts[problem] = {settings.policy(problem): len(rows)}
            of_leak = leaks if problem in (Problem.LEAK, Problem.LEAKED_SIDE) else None
            examples[problem] = tuple(_example(chunk, row, of_leak) for row in rows[:EXAMPLES])
    return CleaningReport(pairs=len(chunk), dropped=num_dropped, fixed=num_fixed, counts=counts, examples=examples)


def _example(chunk: Chunk, row: int, leaks: Leaks | None) -> ProblemExample:
    source, target = (excerpt(side[row].as_py()) for side in (chunk.source, chunk.target))
    note = leaks.place(row) if leaks else ""
    return ProblemExample(line=chunk.first_line + row + 1, source=source, target=target, note=note)
