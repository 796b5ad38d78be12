from hashlib import blake2b

import numpy as np
import pyarrow as pa

from dragoman.data.clean import Cleaned
from dragoman.data.duplicates import first_of_each, hash_pairs, without_duplicates
from dragoman.data.problem import Problem
from dragoman.data.report import Report


def text(*lines: str) -> pa.LargeStringArray:
    return pa.array(lines, pa.large_string())


def test_a_hash_is_of_both_sides_and_where_one_ends() -> None:
    hashes = hash_pairs(text("a", "a", "ab", "a", ""), text("bc", "bc", "c", "b", ""))
    assert hashes.shape == (5, 2)
    assert len(np.unique(hashes, axis=0)) == 4
    expected = blake2b(b"a\xffbc", digest_size=16).digest()
    assert hashes[0].tolist() == [int.from_bytes(expected[:8], "little"), int.from_bytes(expected[8:], "little")]
    assert hash_pairs(text(), text()).shape == (0, 2)


def test_the_first_of_equal_hashes_stays() -> None:
    hashes = np.array([[3, 1], [1, 3], [3, 1], [3, 2], [1, 3], [3, 1]], np.uint64)
    assert first_of_each(hashes).tolist() == [True, True, False, True, False, False]


def test_duplicates_go_and_are_counted() -> None:
    line = np.array([4, 7, 8, 9])
    cleaned = Cleaned(text("a", "b", "a", "a"), text("x", "y", "x", "z"), line, Report(pairs=10, dropped=6))
    found = without_duplicates(cleaned)
    assert (found.source.to_pylist(), found.target.to_pylist()) == (["a", "b", "a"], ["x", "y", "z"])
    assert found.line.tolist() == [4, 7, 9]
    assert (found.report.pairs, found.report.dropped, found.report.stayed) == (10, 7, 3)
    assert [(e.line, e.source, e.target) for e in found.report.examples[Problem.DUPLICATE]] == [(9, "a", "x")]
    assert without_duplicates(found) is found
