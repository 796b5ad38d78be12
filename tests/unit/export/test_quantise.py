"""Matrices in fewer bits: near what they were, and what they were is left alone."""

import numpy as np
import pytest

from dragoman.bundle.info import ExportStore
from dragoman.export.model_bin import quantise

ARRAYS = {
    "a/weight": np.random.default_rng(3).normal(size=(5, 7)).astype(np.float32),
    "a/bias": np.linspace(-1, 1, 5, dtype=np.float32),
    "encodings": np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32),
    "flag": np.array(1, np.int8),
}


def test_float32_is_left_as_it_is() -> None:
    assert quantise(ARRAYS, "float32") == ARRAYS


@pytest.mark.parametrize(("store", "kind"), [("int8", np.int8), ("int16", np.int16)])
def test_matrices_are_rounded_to_the_nearest_and_the_rest_stays(store: ExportStore, kind: type) -> None:
    before = {name: array.copy() for name, array in ARRAYS.items()}
    kept = quantise(ARRAYS, store)
    assert kept.keys() == ARRAYS.keys() | {"a/weight_scale"}
    assert all(kept[name] is ARRAYS[name] for name in ("a/bias", "encodings", "flag"))
    assert all(np.array_equal(array, before[name]) for name, array in ARRAYS.items())
    rounded, scale = kept["a/weight"], kept["a/weight_scale"]
    assert (rounded.dtype, scale.dtype) == (kind, np.float32)
    assert scale.shape == ((5,) if store == "int8" else ())
    step = (1 / scale)[:, None] if store == "int8" else 1 / scale
    assert (np.abs(rounded * step - ARRAYS["a/weight"]) <= step / 2 * (1 + 1e-5)).all()


def test_the_largest_number_of_a_row_uses_all_the_bits_there_are() -> None:
    assert np.abs(quantise(ARRAYS, "int8")["a/weight"]).max(axis=1).tolist() == [127] * 5
    assert np.abs(quantise(ARRAYS, "int16")["a/weight"]).max() == 1024


def test_a_row_of_zeros_stays_one_and_tiny_numbers_keep_a_scale() -> None:
    odd = np.zeros((3, 4), np.float32)
    odd[1] = 1e-40
    kept = quantise({"a/weight": odd}, "int8")
    assert kept["a/weight"][0].tolist() == [0, 0, 0, 0]
    assert np.isfinite(kept["a/weight_scale"]).all()
