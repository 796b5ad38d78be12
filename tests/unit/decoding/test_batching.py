"""Which sequences go together: every one once, none too many, and alike."""

from itertools import product

import numpy as np
import pytest

from dragoman.decoding.batching import alike, compute_batches
from dragoman.device import cpu


@pytest.mark.parametrize(("tokens", "seed"), [*product([1, 37, 500], [0, 1])])
def test_every_pair_is_in_one_batch_and_none_has_more_than_its_tokens(tokens: int, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(1, (40, 30), (83, 2))
    batches = list(alike([tuple(pair) for pair in lengths.tolist()], tokens))
    assert sorted(np.concatenate(batches).tolist()) == list(range(83))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * lengths[rows].max(axis=0).sum() <= tokens
    assert len(batches) == 83 or tokens > 1


def test_a_batch_takes_all_that_fit_the_longest_first() -> None:
    assert list(alike([(2,), (5,), (3,), (5,), (9,)], 10)) == [[4], [1, 3], [2, 0]]
    assert list(alike([(2, 9), (3, 1), (3, 2)], 20)) == [[2, 1], [0]]
    assert list(alike([], 20)) == []


class Narrow:
    """A computation with memory for so many rows; keeps the sizes of the batches it was called with."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room, self.error = room, error
        self.sizes: list[int] = []

    def __call__(self, batch: list[int]) -> int:
        self.sizes.append(len(batch))
        if len(batch) > self.room:
            raise self.error
        return sum(batch)


OUT_OF_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")


def test_batches_that_fit_are_computed_whole() -> None:
    narrow = Narrow(8, OUT_OF_MEMORY)
    assert list(compute_batches([[3, 1], [5]], narrow, cpu())) == [([3, 1], 4), ([5], 5)]
    assert narrow.sizes == [2, 1]


@pytest.mark.parametrize("error", [OUT_OF_MEMORY, MemoryError()])
def test_a_batch_without_memory_and_later_ones_are_halved(error: Exception) -> None:
    narrow = Narrow(2, error)
    parts = [part for part, _ in compute_batches([list(range(7)), list(range(7, 13)), [13]], narrow, cpu())]
    assert parts == [[0, 1], [2, 3], [4, 5], [6], [7, 8], [9, 10], [11, 12], [13]]
    assert narrow.sizes == [7, 4, *map(len, parts)]  # memory runs out twice, and not again in each batch


def test_memory_for_less_than_one_sentence_is_an_error_of_the_user() -> None:
    with pytest.raises(ValueError, match="memory does not hold a batch of one sentence: "):
        list(compute_batches([[0, 1, 2]], Narrow(0, OUT_OF_MEMORY), cpu()))


def test_other_errors_are_not_for_want_of_memory() -> None:
    narrow = Narrow(0, RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes cannot"):
        list(compute_batches([[0, 1, 2]], narrow, cpu()))
    assert narrow.sizes == [3]
