"""What a byte for each weight keeps: the zeros, the largest weight, the sums, and nearly everything else."""

import numpy as np
import pytest

from dragoman.inspection.trace import key_norms, pack_weights, unpack_weights

HEADS, ROWS, KEYS = 2, 5, 7


def restored(row: list[float]) -> np.ndarray:
    weights = np.array(row, np.float32)[None, None]
    return unpack_weights(*pack_weights(weights))[0, 0]


def test_many_small_weights_do_not_outweigh_a_large_one() -> None:
    row = [0.5] + [0.001] * 500  # rounded one by one, 500 times half a unit would become whole ones
    back = restored(row)
    assert abs(back - row).max() < 0.004
    assert back.sum() == pytest.approx(1.0, abs=1e-6)


def test_the_larger_of_two_that_look_alike_stays_the_larger() -> None:
    back = restored([0.333, 0.3331, 0.3339])
    assert back.argmax() == 2
    assert abs(back - [0.333, 0.3331, 0.3339]).max() < 0.004


def test_of_equal_weights_the_first_is_found_as_before() -> None:
    assert restored([0.1, 0.3, 0.3, 0.3]).argmax() == 1
    assert abs(restored([0.25] * 4) - 0.25).max() < 0.001


def test_a_hidden_key_stays_at_zero_and_one_alone_at_one() -> None:
    assert restored([0.0, 1.0, 0.0]).tolist() == [0.0, 1.0, 0.0]
    assert (restored([0.2, 0.3, 0.5, 0.0])[3:] == 0.0).all()


def test_a_row_that_sees_nothing_comes_back_empty() -> None:
    assert restored([0.0, 0.0]).tolist() == [0.0, 0.0]


def test_a_re_weighted_row_keeps_its_sum() -> None:
    back = restored([0.125, 0.25, 0.0])
    assert back.sum() == pytest.approx(0.375, abs=1e-6)
    assert back[2] == 0.0


def test_it_takes_one_byte_a_weight() -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(KEYS), (HEADS, ROWS))
    stored, sums = pack_weights(weights)
    assert (stored.dtype, stored.shape) == (np.uint8, (HEADS, ROWS, KEYS))
    assert (sums.dtype, sums.shape) == (np.float32, (HEADS, ROWS))


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_what_is_no_weight_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="negative or not finite"):
        restored([0.5, wrong])


def test_norms_are_kept_as_one_number_for_each_key() -> None:
    generator = np.random.default_rng(2)
    weights = generator.dirichlet(np.ones(KEYS), (HEADS, ROWS))
    weights[1, :, 4] = 0.0
    by_key = generator.uniform(0.5, 9.0, (HEADS, KEYS))
    found = key_norms(weights * by_key[:, None], weights)
    by_key[1, 4] = 0.0  # never looked at, so nothing is known of it
    np.testing.assert_allclose(found, by_key, rtol=1e-6)


def test_norms_of_other_weights_are_refused() -> None:
    weights = np.random.default_rng(3).dirichlet(np.ones(KEYS), (HEADS, ROWS))
    with pytest.raises(ValueError, match="differ from the weight times"):
        key_norms(weights[:, ::-1], weights)
