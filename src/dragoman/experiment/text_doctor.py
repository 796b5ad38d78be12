"""The checks of `dragoman doctor` that need no training packages: files, numbers of lines, and single pairs."""

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final

from dragoman.evaluation.text_files import read_sides
from dragoman.experiment.findings import Finding, check_num_pairs
from dragoman.io.progress import Progress
from dragoman.triage.ranking import rank_texts

_SAMPLE: Final = 20_000
"""The maximum number of pairs per corpus whose texts are compared."""

_MANY: Final = 0.2
"""The share of suspicious pairs above which a warning is given."""


def find_missing_packages() -> list[str]:
    """Return the packages for training that are not installed."""
    return [name for name in ("torch", "pyarrow") if find_spec(name) is None]


def examine_text(sources: Sequence[str], targets: Sequence[str], progress: Progress) -> Iterator[Finding]:
    """Yield findings about text files, and a warning about what cannot be checked without training packages."""
    rest = "cleaning, misaligned lines, vocabulary, speed, memory and disk"
    missing = " and ".join(find_missing_packages())
    what = f"{os.cpu_count()} cores; {missing} not installed, which training needs: pip install 'dragoman[train]'"
    yield Finding("machine", "warning", what)
    if len(sources) != len(targets):
        message = f"{len(sources)} --source but {len(targets)} --target: give a --target for each --source"
        yield Finding("files", "problem", message)
        return
    for source, target in zip(sources, targets, strict=True):
        yield from _examine_pair_of_files(source, target, progress)
    yield Finding("not checked", "warning", f"{rest}: pip install 'dragoman[train]', and run the same command again")


def _examine_pair_of_files(source: str, target: str, progress: Progress) -> Iterator[Finding]:
    try:
        sources, targets = read_sides(source, target)
    except ValueError as error:
        yield Finding("files", "problem", str(error))
        return
    pairs = list(zip(sources.lines, targets.lines, strict=True))
    yield Finding("files", "ok", f"{source} and {target} can be read")
    yield check_num_pairs(len(pairs))
    if empty := [number for number, pair in enumerate(pairs, 1) if not all(text.strip() for text in pair)]:
        message = f"{len(empty):,} pairs have an empty side, the first in line {empty[0]:,}: training leaves them out"
        yield Finding("empty", "problem" if len(empty) == len(pairs) else "warning", message)
    copied = [number for number, (one, other) in enumerate(pairs, 1) if one.strip() == other.strip() != ""]
    if len(copied) > _MANY * len(pairs):
        message = f"{len(copied):,} sources equal their targets, the first in line {copied[0]:,}: check the files"
        yield Finding("languages", "warning", message)
    sample = pairs[:: -(-len(pairs) // _SAMPLE)]
    progress("compare the texts", len(sample), None)
    ranked, _ = rank_texts(*zip(*sample, strict=True))
    flagged = sum(bool(line.flags) for line in ranked)
    message = f"{flagged / len(sample):.1%} of {len(sample):,} pairs have signs of errors"
    if flagged > _MANY * len(sample):
        message += f": dragoman triage --source {source} --target {target} shows them"
    yield Finding("pairs", "warning" if flagged > _MANY * len(sample) else "ok", message)
