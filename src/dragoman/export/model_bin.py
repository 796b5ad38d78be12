"""Write CTranslate2's model.bin, version 6: arrays sorted by name, quantised as in CTranslate2.

`ctranslate2.specs` is not used because it imports torch if installed, and modifies its input arrays in place. A test
compares both outputs byte by byte.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.info import ExportStore

VERSION: Final = 6
SPECIFICATION: Final = ("TransformerSpec", 7)
TYPES: Final = ("float32", "int8", "int16", "int32", "float16")
"""Data types in the order of their numbers in CTranslate2."""

_LARGEST_INT8: Final = 127.0
_LARGEST_INT16: Final = 2.0**10
"""CTranslate2 uses 10 bits, so that products of 20 bits can be summed in 32 bits."""


def aliases(variables: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Map the name of each duplicate array to the first name of the same array; scalars are never aliased."""
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    later = {}
    for name, array in sorted(variables.items()):
        if array.ndim:
            known = first.setdefault((array.dtype.name, array.shape, array.tobytes()), name)
            if known != name:
                later[name] = known
    return later


def write_model_bin(variables: Mapping[str, NDArray[Any]], also: Mapping[str, str]) -> bytes:
    """Return the content of a model.bin with the given arrays; `also` maps aliases to array names.

    CTranslate2 applies the alias of a quantised matrix to its scale as well.
    """
    name, revision = SPECIFICATION
    parts = [struct.pack("<I", VERSION), _string(name), struct.pack("<II", revision, len(variables))]
    for name, array in sorted(variables.items()):
        parts += [_string(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", TYPES.index(array.dtype.name), array.nbytes), array.tobytes()]
    parts.append(struct.pack("<I", len(also)))
    parts += [_string(name) for alias in sorted(also.items()) for name in alias]
    return b"".join(parts)


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def quantise(variables: Mapping[str, NDArray[Any]], store: ExportStore) -> dict[str, NDArray[Any]]:
    """Return the arrays with every matrix quantised and its scale added; vectors and scalars are unchanged."""
    kept = dict(variables)
    if store == "float32":
        return kept
    for name, array in variables.items():
        if name.endswith("/weight"):
            kept[name], kept[f"{name}_scale"] = _int8(array) if store == "int8" else _int16(array)
    return kept


def _int8(array: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise a matrix to int8 with a scale per row."""
    largest = np.abs(array).max(axis=1)
    largest[largest == 0] = _LARGEST_INT8
    smallest = np.float32(_LARGEST_INT8) / np.finfo(np.float32).max  # its scale must still be a float32
    scale = (_LARGEST_INT8 / np.maximum(largest, smallest)).astype(np.float32)
    return np.rint(array * scale[:, None]).astype(np.int8), scale


def _int16(array: NDArray[np.float32]) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Quantise a matrix to int16 with a single scale."""
    scale = np.float32(_LARGEST_INT16 / np.abs(array).max())
    limits = np.iinfo(np.int16)
    return np.rint(array * scale).clip(limits.min, limits.max).astype(np.int16), np.array(scale)
