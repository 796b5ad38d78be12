"""Keyed permutations of [0, n): shuffling as a function, without storing a shuffled list.

A number below n is a position in a rectangle of about sqrt(n) x sqrt(n). A Feistel network moves it alternately along
its row and its column, by distances that depend on the key and the other coordinate; a result of n or more goes through
the network again ("cycle walking"; Black and Rogaway, 2002, "Ciphers with arbitrary finite domains"). So the cost per
number does not depend on n. Small rectangles mix badly, so for small n the numbers are sorted by their hashes. The
permutations are not cryptographically secure.
"""

import hashlib

import numpy as np
from jaxtyping import Int64, UInt64
from numpy.typing import NDArray

Numbers = Int64[np.ndarray, " numbers"]
Words = UInt64[np.ndarray, " numbers"]

NUM_ROUNDS = 8
SORTED = 32
"""The largest n for which a permutation sorts the numbers by their hashes."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: its multiples lie far from each other
_Array = NDArray[np.uint64]
_STEPS = np.arange(1, SORTED + 1, dtype=np.uint64) * _GOLDEN


def key(*parts: int | str) -> int:
    """Return a 64-bit key for a permutation: a hash of values such as the seed and the epoch."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def subkeys(parent: int, which: Numbers) -> Words:
    """Return a 64-bit key for each number in `which`, derived from the key `parent`."""
    return _mix(np.uint64(parent) ^ _mix((which.astype(np.uint64) + np.uint64(1)) * _GOLDEN))


def permute(numbers: Numbers, n: int | Numbers, keys: int | Words) -> Numbers:
    """Return the permuted value of each number in [0, n); `n` and `keys` may have one value per number."""
    end = np.broadcast_to(np.asarray(n, dtype=np.uint64), numbers.shape)
    words = np.broadcast_to(np.asarray(keys, dtype=np.uint64), numbers.shape)
    start = numbers.astype(np.uint64)
    assert (start < end).all(), "all numbers must be in [0, n)"
    few = end <= SORTED
    if few.all():
        return _by_sorting(start, end, words).astype(np.int64)
    result = _by_walking(start, end, words)
    if few.any():
        result[few] = _by_sorting(start[few], end[few], words[few])
    return result.astype(np.int64)


def permute_one(number: int, n: int, word: int) -> int:
    """Return the permuted value of a single number in [0, n)."""
    return int(permute(np.array([number]), n, word)[0])


def _by_sorting(start: _Array, n: _Array, keys: _Array) -> _Array:
    """Return the rank of each number's hash among the hashes of all numbers in [0, n)."""
    hashes = _mix(keys[:, None] + _STEPS)  # [numbers, SORTED]
    hashes[np.arange(SORTED) >= n[:, None]] = np.iinfo(np.uint64).max
    smaller = hashes < np.take_along_axis(hashes, start[:, None].astype(np.int64), axis=1)
    rank: _Array = smaller.sum(axis=1).astype(np.uint64)
    return rank


def _by_walking(start: _Array, n: _Array, keys: _Array) -> _Array:
    # Rounding of the root does no harm: the rectangle must hold n numbers, not be a square.
    width = np.ceil(np.sqrt(n.astype(np.float64))).astype(np.uint64)
    height = (n - np.uint64(1)) // width + np.uint64(1)
    now = _feistel(start, width, height, keys)
    outside = np.flatnonzero(now >= n)
    while len(outside):
        again = _feistel(now[outside], width[outside], height[outside], keys[outside])
        now[outside] = again
        outside = outside[again >= n[outside]]
    return now


def _feistel(place: _Array, width: _Array, height: _Array, keys: _Array) -> _Array:
    """Return the position after NUM_ROUNDS moves, alternately along the row and the column."""
    row, column = place // width, place % width
    for i in range(NUM_ROUNDS):
        if i % 2:
            row = (row + _mix(column ^ (keys + _STEPS[i])) % height) % height
        else:
            column = (column + _mix(row ^ (keys + _STEPS[i])) % width) % width
    moved: _Array = row * width + column
    return moved


def _mix(words: _Array) -> _Array:
    """Return a hash of each 64-bit word, computed as in splitmix64 (Steele, Lea and Flood, 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: _Array = words ^ (words >> np.uint64(31))
    return mixed
