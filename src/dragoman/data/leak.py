"""Held-out sentences that are also in the training data, and where they were held out."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64
from numpy import ndarray

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.mend import mend
from dragoman.data.problem import CleanConfig

_LINES = 10_000
_BETWEEN = "\x1f"  # in no mended text
_NONE = pa.nulls(0, pa.large_string())  # not `array`, which imports pandas where it is installed


@dataclass(frozen=True)
class Leaks:
    """For each pair, the place among the held-out ones of the same pair, source and target; -1 where there is none."""

    pair: Int64[ndarray, " pairs"]
    source: Int64[ndarray, " pairs"]
    target: Int64[ndarray, " pairs"]
    files: tuple[tuple[str, int], ...]
    """By held-out corpus: the name of its source, and how many lines all up to it have."""

    def place(self, row: int) -> str:
        """File and line in which a pair, or else one of its sides, was held out; lines are counted from 1."""
        index = next(int(side[row]) for side in (self.pair, self.source, self.target) if side[row] >= 0)
        ends = [end for _, end in self.files]
        file = bisect_right(ends, index)
        return f"{self.files[file][0]}, line {index - ([0, *ends][file]) + 1}"


@dataclass(frozen=True)
class HeldOut:
    """The sentences of the development and test sets, without regard to case."""

    pairs: pa.LargeStringArray
    sources: pa.LargeStringArray
    targets: pa.LargeStringArray
    files: tuple[tuple[str, int], ...]

    def find(self, source: pa.LargeStringArray, target: pa.LargeStringArray) -> Leaks:
        """Where pairs of mended text, and their sides, are held out."""
        source, target = pc.utf8_lower(source), pc.utf8_lower(target)
        pair = _index(_joined(source, target), self.pairs)
        sides = (_index(source, self.sources), _index(target, self.targets))
        pair[(sides[0] < 0) | (sides[1] < 0)] = -1
        return Leaks(pair, *sides, self.files)


def hold_out(corpora: Sequence[CorpusConfig], settings: CleanConfig) -> HeldOut:
    """Read and mended as the training data is. All of it is held in memory: these sets are small."""
    sources, targets = [_NONE], [_NONE]
    files: list[tuple[str, int]] = []
    for corpus in corpora:
        for chunk in read_chunks(corpus, _LINES):
            sources.append(pc.utf8_lower(mend(chunk.source, settings).text))
            targets.append(pc.utf8_lower(mend(chunk.target, settings).text))
        files.append((corpus.source, sum(map(len, sources))))
    source, target = pa.concat_arrays(sources), pa.concat_arrays(targets)
    return HeldOut(_joined(source, target), source, target, tuple(files))


def _joined(source: pa.LargeStringArray, target: pa.LargeStringArray) -> pa.LargeStringArray:
    return pc.binary_join_element_wise(source, target, pa.scalar(_BETWEEN, pa.large_string()))


def _index(text: pa.LargeStringArray, held_out: pa.LargeStringArray) -> Int64[ndarray, " pairs"]:
    """The first place at which each is held out. An empty side never is."""
    index: ndarray = pc.fill_null(pc.index_in(text, held_out), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    index[pc.equal(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)] = -1
    return index
