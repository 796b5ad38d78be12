"""How several corpora share an epoch: each with its number of batches, spread evenly from beginning to end."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from dragoman.data.permutation import key, permute

BLOCK = 256
"""Neighbouring places that are shuffled, so that corpora do not take turns like clockwork."""


def tempered(weights: Sequence[float], sizes: Sequence[int], temperature: float) -> list[float]:
    """Weights under which a corpus of n pairs counts like one of n ** (1 / temperature).

    The largest corpus keeps its weight and the others come more often: at 1 nothing changes, and towards infinity all
    come equally often.
    """
    if temperature < 1.0:
        raise ValueError(f"a temperature below 1 would make small corpora smaller: {temperature}; give 1 or more")
    largest = max(sizes, default=0)
    return [
        weight * (largest / size) ** (1.0 - 1.0 / temperature) if size else weight
        for weight, size in zip(weights, sizes, strict=True)
    ]


def times(weight: float, num_batches: int) -> int:
    """How many batches a corpus gives to an epoch: all of them floor(weight) times, and a part once more.

    At least one, if it has any: a corpus that was asked for never stays away.
    """
    if not 0.0 < weight < float("inf"):
        raise ValueError(f"a corpus needs a weight above 0, not {weight}; leave it out to do without it")
    return max(round(Fraction(weight) * num_batches), min(1, num_batches))


def locate(place: int, counts: Sequence[int]) -> tuple[int, int]:
    """Which corpus a place of the epoch belongs to, and the how manieth of its batches stands there.

    Of the first i places, a corpus with a share p of all has p * i, rounded down. What is left over is shared by the
    other corpora in the same way.
    """
    remaining = sum(counts)
    assert 0 <= place < remaining
    for corpus, count in enumerate(counts):
        before = place * count // remaining
        if (place + 1) * count // remaining > before:
            return corpus, before
        place -= before
        remaining -= count
    raise AssertionError("the last corpus takes whatever is left")


def shuffled(place: int, num_places: int, name: int) -> int:
    """A place near this one: neighbours are shuffled within their block."""
    block, within = divmod(place, BLOCK)
    size = min(BLOCK, num_places - block * BLOCK)
    return block * BLOCK + int(_block(size, key(name, block))[within])


@lru_cache(maxsize=4)
def _block(size: int, name: int) -> Int64[ndarray, " size"]:
    """Kept, as each place of a block asks for it."""
    return permute(np.arange(size), size, name)
