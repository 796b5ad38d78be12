"""CTranslate2's file of weights, version 6: named arrays one after the other, in the order of their names.

Written here rather than by `ctranslate2.specs`, which imports torch wherever torch is installed, and multiplies the
arrays that it is given in place. A test holds the two to the same bytes.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

_VERSION: Final = 6
_SPECIFICATION: Final = ("TransformerSpec", 7)
_TYPES: Final = ("float32", "int8", "int16", "int32", "float16")
"""As CTranslate2 numbers them."""


def aliases(variables: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """The later names of arrays that an earlier name has as well, with that name. Single numbers are never shared."""
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    later = {}
    for name, array in sorted(variables.items()):
        if array.ndim:
            known = first.setdefault((array.dtype.name, array.shape, array.tobytes()), name)
            if known != name:
                later[name] = known
    return later


def serialise(variables: Mapping[str, NDArray[Any]], also: Mapping[str, str]) -> bytes:
    """The file's content: arrays, and other names under which some of them are found `also`.

    An alias stands for the scale of a rounded matrix, too: CTranslate2 sees to that when it reads.
    """
    name, revision = _SPECIFICATION
    parts = [struct.pack("<I", _VERSION), _string(name), struct.pack("<II", revision, len(variables))]
    for name, array in sorted(variables.items()):
        parts += [_string(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", _TYPES.index(array.dtype.name), array.nbytes), array.tobytes()]
    parts.append(struct.pack("<I", len(also)))
    parts += [_string(name) for alias in sorted(also.items()) for name in alias]
    return b"".join(parts)


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"
