"""Weights in fewer bits, by CTranslate2's own rules, so that the file is what its converters would write."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.info import ExportStore

_SUFFIX: Final = "/weight"
_LARGEST_INT8: Final = 127.0
_LARGEST_INT16: Final = 2.0**10
"""CTranslate2 keeps 10 bits: products then take 20 of the 32 that they are summed in."""


def quantised(variables: Mapping[str, NDArray[Any]], store: ExportStore) -> dict[str, NDArray[Any]]:
    """Every matrix rounded, and its scale beside it; vectors, positions and single numbers stay as they are."""
    kept = dict(variables)
    if store == "float32":
        return kept
    for name, array in variables.items():
        if name.endswith(_SUFFIX):
            kept[name], kept[f"{name}_scale"] = _int8(array) if store == "int8" else _int16(array)
    return kept


def _int8(array: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A scale for each row."""
    largest = np.abs(array).max(axis=1)
    largest[largest == 0] = _LARGEST_INT8
    smallest = np.float32(_LARGEST_INT8) / np.finfo(np.float32).max  # its scale must still be a float32
    scale = (_LARGEST_INT8 / np.maximum(largest, smallest)).astype(np.float32)
    return np.rint(array * scale[:, None]).astype(np.int8), scale


def _int16(array: NDArray[np.float32]) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """One scale for the matrix."""
    scale = np.float32(_LARGEST_INT16 / np.abs(array).max())
    limits = np.iinfo(np.int16)
    return np.rint(array * scale).clip(limits.min, limits.max).astype(np.int16), np.array(scale)
