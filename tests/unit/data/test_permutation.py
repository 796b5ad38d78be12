from math import factorial, sqrt

import numpy as np
import pytest

from dragoman.data.permutation import SORTED, key, permute, permute_one, subkeys

SIZES = [1, 2, 3, 7, SORTED - 1, SORTED, SORTED + 1, 48, 49, 50, 1000, 4096, 4097]


def far_from_fair(counts: np.ndarray) -> float:
    """How many standard deviations chi-squared lies above its mean, if all outcomes are equally probable.

    The tail is heaviest for two outcomes, where a fair shuffle is above 5 once in 200 times; from six on, less than
    once in 1,000 times. Keys are fixed, so what passes once passes always.
    """
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / sqrt(2 * freedom))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("word", [0, 1, 2**64 - 1, key("any")])
def test_every_number_comes_exactly_once(n: int, word: int) -> None:
    assert np.array_equal(np.sort(permute(np.arange(n), n, word)), np.arange(n))


@pytest.mark.parametrize("n", [*SIZES, 2**32 + 1, 10**15 + 37, 2**63 - 1])
def test_no_two_numbers_go_to_the_same_place(n: int) -> None:
    numbers = np.unique(np.linspace(0, n - 1, 500).astype(np.uint64).clip(0, n - 1)).astype(np.int64)
    moved = permute(numbers, n, key("inverse", n))
    assert moved.min() >= 0
    assert moved.max() < n
    assert len(np.unique(moved)) == len(numbers)


def test_numbers_beyond_32_bits_spread_over_the_whole_range() -> None:
    n = 2**40 + 3
    parts = permute(np.arange(64_000), n, key("large")) // (n // 64 + 1)
    assert far_from_fair(np.bincount(parts, minlength=64)) < 5


def test_sizes_and_keys_may_differ_from_number_to_number() -> None:
    sizes = np.array([1, 5, 5, 33, 40, 1000, 2**33])
    keys = subkeys(11, np.arange(7))
    numbers = np.array([0, 4, 2, 32, 7, 999, 2**32])
    together = permute(numbers, sizes, keys)
    alone = [permute_one(int(i), int(n), int(word)) for i, n, word in zip(numbers, sizes, keys, strict=True)]
    assert together.tolist() == alone


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_of_few_numbers_every_order_is_equally_probable(n: int) -> None:
    draws = 200 * factorial(n)
    keys = np.repeat(subkeys(key("orders", n), np.arange(draws)), n)
    orders = permute(np.tile(np.arange(n), draws), n, keys).reshape(draws, n)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == factorial(n)
    assert far_from_fair(counts) < 5


@pytest.mark.parametrize("n", [SORTED, SORTED + 1, 36, 50])
@pytest.mark.parametrize("first", [0, 17])
def test_where_two_neighbours_go_is_fair_over_keys(n: int, first: int) -> None:
    keys = subkeys(key("neighbours", n), np.arange(40 * n * (n - 1)))
    pair = [permute(np.full(len(keys), number), n, keys) for number in (first, first + 1)]
    counts = np.bincount(pair[0] * n + pair[1], minlength=n * n)
    apart = np.arange(n * n) % (n + 1) != 0
    assert not counts[~apart].any()
    assert far_from_fair(counts[apart]) < 5


@pytest.mark.parametrize("n", [1_000, 100_003])
def test_the_order_is_not_correlated_with_itself(n: int) -> None:
    """The correlation of n random pairs has a standard deviation of 1 / sqrt(n)."""
    order = permute(np.arange(n), n, key("correlation"))
    for lag in (1, 2, 31, 317):
        assert abs(np.corrcoef(order[:-lag], order[lag:])[0, 1]) < 4.5 / sqrt(n)
    assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 4.5 / sqrt(n)


def test_two_keys_agree_no_more_often_than_chance() -> None:
    """Two random orders of n numbers agree in about one place: Poisson with mean 1, so above 8 once in a million."""
    orders = [permute(np.arange(5_000), 5_000, word) for word in range(12)]
    agreements = [int((orders[i] == orders[j]).sum()) for i in range(12) for j in range(i)]
    assert max(agreements) <= 8
    assert 0.5 < np.mean(agreements) < 1.5


def test_a_key_depends_on_every_part_and_on_their_kind() -> None:
    keys = {key(1, "rows", 23), key(1, "rows", 2, 3), key(12, "rows", 3), key("1", "rows", 23), key(23, "rows", 1)}
    assert len(keys) == 5
    assert all(0 <= word < 2**64 for word in keys)


def test_a_key_is_the_same_in_every_process() -> None:
    """The first 8 bytes of BLAKE2b of "(2017, 'rows')", as `b2sum -l 64` of GNU coreutils prints them."""
    assert key(2017, "rows") == int.from_bytes(bytes.fromhex("14936f901e6216cf"), "little")


def test_subkeys_differ_from_each_other_and_between_parents() -> None:
    keys = np.concatenate([subkeys(parent, np.arange(10_000)) for parent in range(3)])
    assert len(np.unique(keys)) == 30_000


def test_a_number_outside_is_refused() -> None:
    with pytest.raises(AssertionError, match="all numbers"):
        permute(np.array([0, 7]), 7, 1)
