"""Keyed permutations of [0, n): shuffling as a function, so that no shuffled list is ever stored.

A number below n is a place in a rectangle of about sqrt(n) x sqrt(n). A Feistel network moves it along its row and its
column in turns, by distances that depend on the key and on the other coordinate; a number that ends up in the
rectangle but not below n goes through again until it does ("cycle walking"; Black and Rogaway, 2002, "Ciphers with
arbitrary finite domains"). So each number costs the same few multiplications, whatever n is. A rectangle of a few
rows mixes badly, but so few numbers can simply be sorted by their hashes. All this is for mixing, not for secrets.
"""

import hashlib

import numpy as np
from jaxtyping import Int64, UInt64
from numpy.typing import NDArray

Numbers = Int64[np.ndarray, " numbers"]
Words = UInt64[np.ndarray, " numbers"]

NUM_ROUNDS = 8
SORTED = 32
"""The largest n whose numbers are sorted by their hashes."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: its multiples lie far from each other
_Array = NDArray[np.uint64]
_STEPS = np.arange(1, SORTED + 1, dtype=np.uint64) * _GOLDEN


def key(*parts: int | str) -> int:
    """64 bits from whatever names a permutation: the seed, the epoch, what is permuted."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def subkeys(parent: int, which: Numbers) -> Words:
    """A key of its own for each number: `key`, for a whole array."""
    return _mix(np.uint64(parent) ^ _mix((which.astype(np.uint64) + np.uint64(1)) * _GOLDEN))


def permute(numbers: Numbers, n: int | Numbers, keys: int | Words) -> Numbers:
    """Where each number of [0, n) goes. `n` and `keys` may differ from number to number."""
    return _apply(numbers, n, keys, inverse=False)


def permute_one(number: int, n: int, word: int) -> int:
    """`permute` for a single number."""
    return int(permute(np.array([number]), n, word)[0])


def unpermute(numbers: Numbers, n: int | Numbers, keys: int | Words) -> Numbers:
    """Where each number came from."""
    return _apply(numbers, n, keys, inverse=True)


def _apply(numbers: Numbers, n: int | Numbers, keys: int | Words, inverse: bool) -> Numbers:
    end = np.broadcast_to(np.asarray(n, dtype=np.uint64), numbers.shape)
    words = np.broadcast_to(np.asarray(keys, dtype=np.uint64), numbers.shape)
    start = numbers.astype(np.uint64)
    assert (start < end).all(), "only numbers of [0, n) can be permuted"
    few = end <= SORTED
    if few.all():
        return _by_sorting(start, end, words, inverse).astype(np.int64)
    result = _by_walking(start, end, words, inverse)
    if few.any():
        result[few] = _by_sorting(start[few], end[few], words[few], inverse)
    return result.astype(np.int64)


def _by_sorting(start: _Array, n: _Array, keys: _Array, inverse: bool) -> _Array:
    """A number goes where its hash stands among the hashes of [0, n)."""
    hashes = _mix(keys[:, None] + _STEPS)  # [numbers, SORTED]
    hashes[np.arange(SORTED) >= n[:, None]] = np.iinfo(np.uint64).max
    places = start[:, None].astype(np.int64)
    if inverse:
        return np.take_along_axis(hashes.argsort(axis=1, kind="stable"), places, axis=1)[:, 0].astype(np.uint64)
    smaller = hashes < np.take_along_axis(hashes, places, axis=1)
    rank: _Array = smaller.sum(axis=1).astype(np.uint64)
    return rank


def _by_walking(start: _Array, n: _Array, keys: _Array, inverse: bool) -> _Array:
    # Rounding of the root does no harm: the rectangle must hold n numbers, not be a square.
    width = np.ceil(np.sqrt(n.astype(np.float64))).astype(np.uint64)
    height = (n - np.uint64(1)) // width + np.uint64(1)
    rounds = range(NUM_ROUNDS - 1, -1, -1) if inverse else range(NUM_ROUNDS)
    now = _feistel(start, width, height, keys, rounds, inverse)
    outside = np.flatnonzero(now >= n)
    while len(outside):
        again = _feistel(now[outside], width[outside], height[outside], keys[outside], rounds, inverse)
        now[outside] = again
        outside = outside[again >= n[outside]]
    return now


def _feistel(place: _Array, width: _Array, height: _Array, keys: _Array, rounds: range, inverse: bool) -> _Array:
    row, column = place // width, place % width
    for i in rounds:
        if i % 2:
            row = _shift(row, _mix(column ^ (keys + _STEPS[i])), height, inverse)
        else:
            column = _shift(column, _mix(row ^ (keys + _STEPS[i])), width, inverse)
    moved: _Array = row * width + column
    return moved


def _shift(place: _Array, distance: _Array, n: _Array, inverse: bool) -> _Array:
    """Round a circle of n places."""
    steps = distance % n
    reached: _Array = (place + (n - steps if inverse else steps)) % n
    return reached


def _mix(words: _Array) -> _Array:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014): each bit of a word changes half of the others."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: _Array = words ^ (words >> np.uint64(31))
    return mixed
