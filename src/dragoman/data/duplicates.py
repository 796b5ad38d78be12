"""Pairs that are there twice, by hash: two pairs with the same 128 bits are the same pair."""

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, UInt64
from numpy import ndarray

from dragoman.data.clean import Cleaned
from dragoman.data.problem import Problem
from dragoman.data.report import EXAMPLES, Example, Report, excerpt

_BETWEEN = b"\xff"  # in no UTF-8


def hash_pairs(source: pa.LargeStringArray, target: pa.LargeStringArray) -> UInt64[ndarray, "pairs 2"]:
    """128 bits for each pair. The same on every machine, so that the hash can decide where a pair belongs."""
    sides = zip(source.cast(pa.large_binary()).to_pylist(), target.cast(pa.large_binary()).to_pylist(), strict=True)
    digests = b"".join(blake2b(one + _BETWEEN + other, digest_size=16).digest() for one, other in sides)
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)


def first_of_each(hashes: UInt64[ndarray, "pairs 2"]) -> Bool[ndarray, " pairs"]:
    """Which pairs come for the first time."""
    wide = np.ascontiguousarray(hashes).view([("high", np.uint64), ("low", np.uint64)]).ravel()
    first = np.zeros(len(hashes), bool)
    first[np.unique(wide, return_index=True)[1]] = True
    return first


def without_duplicates(cleaned: Cleaned) -> Cleaned:
    """The pairs without those that repeat an earlier one among them, which the report then counts."""
    first = first_of_each(hash_pairs(cleaned.source, cleaned.target))
    again = np.flatnonzero(~first)
    if not len(again):
        return cleaned
    report = Report(
        dropped=len(again),
        counts={Problem.DUPLICATE: {"drop": len(again)}},
        examples={Problem.DUPLICATE: tuple(_example(cleaned, int(row)) for row in again[:EXAMPLES])},
    )
    rows = pa.array(first)
    return replace(
        cleaned,
        source=cleaned.source.filter(rows),
        target=cleaned.target.filter(rows),
        line=cleaned.line[first],
        report=cleaned.report + report,
    )


def _example(cleaned: Cleaned, row: int) -> Example:
    return Example(
        line=int(cleaned.line[row]) + 1,
        source=excerpt(cleaned.source[row].as_py().encode()),
        target=excerpt(cleaned.target[row].as_py().encode()),
    )
