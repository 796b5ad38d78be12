"""Which sequences go together: every one once, none too many, and alike."""

from itertools import product

import numpy as np
import pytest

from dragoman.decoding.batching import alike


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
