"""Whether a file of weights is one of this model: every array there, of the right type and shape, and nothing else.

CTranslate2 believes what a file says. With a table of too few words it reads beyond its end, and without heads it
divides by zero; so a file that comes with a bundle is looked through before it is handed on.
"""

import struct
from collections.abc import Mapping
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from dragoman.bundle import Bundle, Export
from dragoman.bundle.info import WEIGHTS
from dragoman.export.variables import variables

_TYPES: Final = (np.float32, np.int8, np.int16)
_SCALE: Final = "_scale"


class _Entry(NamedTuple):
    """An array in the file."""

    shape: tuple[int, ...]
    kind: Any
    value: NDArray[Any] | None
    """Of a single number."""


def what_is_wrong(bundle: Bundle, export: Export, content: bytes) -> str | None:
    """Why these bytes are no file for the bundle's model; None if they are."""
    try:
        entries, aliases = _Reader(content).read()
    except (struct.error, ValueError, IndexError, UnicodeDecodeError):
        return "it cannot be read as a file of weights"
    expected = _expected(bundle, export)
    names = entries.keys() | aliases.keys()
    scales = {name for name in names if name.endswith(_SCALE)}
    if names - scales != expected.keys() or not set(aliases.values()) <= entries.keys() - scales:
        return "its arrays are not those of the model"
    for name, array in expected.items():
        found = entries[aliases.get(name, name)]
        rounded = export.store != "float32" and name.endswith("/weight")
        if found.shape != array.shape or found.kind != (np.dtype(export.store) if rounded else array.dtype):
            return f"{name} is not of the model's shape"
        if found.value is not None and found.value != array:
            return f"{name} is not the model's"
    scaled = [] if export.store == "float32" else [n for n in expected.keys() & entries.keys() if n.endswith("/weight")]
    ours = {f"{name}{_SCALE}": entries[name].shape[: int(export.store == "int8")] for name in scaled}
    if {name: entries[name].shape for name in scales & entries.keys()} != ours or scales & aliases.keys():
        return "its scales are not those of its matrices"
    return None


def _expected(bundle: Bundle, export: Export) -> Mapping[str, NDArray[Any]]:
    """Arrays of zeros under CTranslate2's names, as large as they have to be."""
    assert bundle.info.model.family == "transformer"
    with safe_open(bundle.folder / WEIGHTS, framework="numpy") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    empty = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    return variables(bundle.info.model, empty, export.alignment_heads)


class _Reader:
    """Goes through a file from its first byte to its last."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = memoryview(content), 0

    def read(self) -> tuple[dict[str, _Entry], dict[str, str]]:
        """The arrays, and the other names of some of them."""
        if (self._number("I"), self._string(), self._number("I")) != (6, "TransformerSpec", 7):
            raise ValueError
        count = self._number("I")
        entries = dict(self._entry() for _ in range(count))
        num_aliases = self._number("I")
        aliases = {self._string(): self._string() for _ in range(num_aliases)}
        if self.place != len(self.content) or (len(entries), len(aliases)) != (count, num_aliases):
            raise ValueError
        return entries, aliases

    def _entry(self) -> tuple[str, _Entry]:
        name = self._string()
        shape = tuple(self._number("I") for _ in range(self._number("B")))
        kind = np.dtype(_TYPES[self._number("B")])
        num_bytes = self._number("I")
        if num_bytes != prod(shape) * kind.itemsize:
            raise ValueError
        data = self._take(num_bytes)
        return name, _Entry(shape, kind, None if shape else np.frombuffer(data, kind)[0])

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(f"<{form}", self._take(struct.calcsize(form)))
        return int(value)

    def _string(self) -> str:
        return bytes(self._take(self._number("H"))).decode().removesuffix("\0")

    def _take(self, count: int) -> memoryview:
        self.place += count
        if self.place > len(self.content):
            raise ValueError
        return self.content[self.place - count : self.place]
