"""A chunk of raw pairs becomes clean text and a report of what was wrong with it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64, UInt32
from numpy import ndarray

from dragoman.data.corpus import Chunk
from dragoman.data.leak import HeldOut, Leaks
from dragoman.data.mend import mend
from dragoman.data.problem import CleanConfig, Problem
from dragoman.data.profile import COPIES, Profile, estimate, out_of_proportion, repeated
from dragoman.data.report import EXAMPLES, Example, Report, excerpt

Problems = UInt32[ndarray, " pairs"]


@dataclass(frozen=True)
class Cleaned:
    """The pairs that stay, as text, in order."""

    source: pa.LargeStringArray
    target: pa.LargeStringArray
    line: Int64[ndarray, " stayed"]
    """Of each pair in its corpus, from 0."""
    report: Report


def clean(chunk: Chunk, settings: CleanConfig, profile: Profile, held_out: HeldOut | None = None) -> Cleaned:
    """A pure function of its arguments, so chunks can be cleaned anywhere and in any order."""
    source, target = mend(chunk.source, settings), mend(chunk.target, settings)
    problems = _of_pairs(source.problems, target.problems)
    problems |= _of_fit(source.text, target.text, problems, profile)
    if chunk.unterminated:
        problems[-1] |= Problem.UNTERMINATED.bit
    leaks = held_out.find(source.text, target.text) if held_out else None
    if leaks:
        problems |= _of_leaks(leaks)
    stays = problems & settings.bits("drop") == 0
    rows = pa.array(stays)
    return Cleaned(
        source.text.filter(rows),
        target.text.filter(rows),
        chunk.first_line + np.flatnonzero(stays),
        _report(chunk, problems, settings, leaks),
    )


def profile_of(sample: Chunk, settings: CleanConfig) -> Profile:
    """What is normal, from a chunk that stands for the corpus."""
    return estimate(mend(sample.source, settings).text, mend(sample.target, settings).text)


def _of_pairs(source: Problems, target: Problems) -> Problems:
    """A pair has the problems of its sides, but two empty sides are one problem and not the same as one."""
    problems: ndarray = source | target
    empty = Problem.EMPTY_SIDE.bit
    both = source & target & empty != 0
    problems[both] = problems[both] & ~empty | Problem.BOTH_EMPTY.bit
    return problems


def _of_fit(source: pa.LargeStringArray, target: pa.LargeStringArray, known: Problems, profile: Profile) -> Problems:
    """Whether the two sides go together, where both can be read."""
    problems = np.zeros_like(known)
    problems[out_of_proportion(source, target, profile)] |= Problem.LENGTH_RATIO.bit
    if profile.identical < COPIES:
        problems[repeated(source, target)] |= Problem.IDENTICAL.bit
    readable = pc.and_(pc.greater(pc.binary_length(source), 0), pc.greater(pc.binary_length(target), 0))
    fit: ndarray = np.where(readable.to_numpy(zero_copy_only=False), problems, np.uint32(0))
    return fit


def _of_leaks(leaks: Leaks) -> Problems:
    problems = np.zeros(len(leaks.pair), np.uint32)
    problems[(leaks.source >= 0) | (leaks.target >= 0)] = Problem.LEAKED_SIDE.bit
    problems[leaks.pair >= 0] = Problem.LEAK.bit
    return problems


def _report(chunk: Chunk, problems: Problems, settings: CleanConfig, leaks: Leaks | None) -> Report:
    dropped = problems & settings.bits("drop") != 0
    fixed = ~dropped & (problems & settings.bits("fix") != 0)
    rows = {problem: np.flatnonzero(problems & problem.bit) for problem in Problem}
    return Report(
        pairs=len(chunk),
        dropped=int(dropped.sum()),
        fixed=int(fixed.sum()),
        counts={problem: {settings.policy(problem): len(some)} for problem, some in rows.items() if len(some)},
        examples={
            problem: tuple(_example(chunk, int(row), _note(problem, int(row), leaks)) for row in some[:EXAMPLES])
            for problem, some in rows.items()
            if len(some)
        },
    )


def _example(chunk: Chunk, row: int, note: str) -> Example:
    return Example(
        line=chunk.first_line + row + 1,
        source=excerpt(chunk.source[row].as_py()),
        target=excerpt(chunk.target[row].as_py()),
        note=note,
    )


def _note(problem: Problem, row: int, leaks: Leaks | None) -> str:
    return leaks.place(row) if leaks and problem in (Problem.LEAK, Problem.LEAKED_SIDE) else ""
