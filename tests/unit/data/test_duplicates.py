from hashlib import blake2b

import numpy as np
import pyarrow as pa

from dragoman.data.prepare_tasks import first_of_each, hash_pairs


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
