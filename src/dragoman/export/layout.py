"""Check that a model.bin has exactly the arrays of a model, with the right data types and shapes.

CTranslate2 does not check the file: an embedding matrix with too few rows causes reads out of bounds, and zero heads a
division by zero. So the file of a bundle is checked before CTranslate2 loads it.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from dragoman.bundle import Bundle, Export
from dragoman.bundle.file_names import WEIGHTS
from dragoman.export.model_bin import SPECIFICATION, TYPES, VERSION
from dragoman.export.variables import variables

_SCALE: Final = "_scale"


def find_layout_error(bundle: Bundle, export: Export, content: bytes) -> str | None:
    """Return the reason why `content` is not a valid model.bin for the bundle's model, or None."""
    try:
        entries, aliases = _ModelBinReader(content).read()
    except (struct.error, ValueError, IndexError, UnicodeDecodeError):
        return "not a valid model.bin"
    expected = _expected(bundle, export)
    names = entries.keys() | aliases.keys()
    scales = {name for name in names if name.endswith(_SCALE)}
    if names - scales != expected.keys() or not set(aliases.values()) <= entries.keys() - scales:
        return "the names of the arrays differ from the model"
    for name, array in expected.items():
        found = entries[aliases.get(name, name)]
        rounded = export.store != "float32" and name.endswith("/weight")
        if found.shape != array.shape or found.dtype != (np.dtype(export.store) if rounded else array.dtype):
            return f"the shape or data type of {name} differs from the model"
        if not found.ndim and found != array:
            return f"the value of {name} differs from the model"
    scaled = [] if export.store == "float32" else [n for n in expected.keys() & entries.keys() if n.endswith("/weight")]
    ours = {f"{name}{_SCALE}": entries[name].shape[: int(export.store == "int8")] for name in scaled}
    if {name: entries[name].shape for name in scales & entries.keys()} != ours or scales & aliases.keys():
        return "the quantisation scales do not match the matrices"
    return None


def _expected(bundle: Bundle, export: Export) -> Mapping[str, NDArray[Any]]:
    """Return zero arrays with the names, data types and shapes that CTranslate2 expects for the model."""
    assert bundle.info.model.family == "transformer"
    with safe_open(bundle.folder / WEIGHTS, framework="numpy") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    empty = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    return variables(bundle.info.model, empty, export.alignment_heads)


class _ModelBinReader:
    """A parser of CTranslate2's model.bin."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = memoryview(content), 0

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """Return the arrays by name, and the array name that each alias stands for."""
        if (self._number("I"), self._string(), self._number("I")) != (VERSION, *SPECIFICATION):
            raise ValueError
        count = self._number("I")
        entries = dict(self._entry() for _ in range(count))
        num_aliases = self._number("I")
        aliases = {self._string(): self._string() for _ in range(num_aliases)}
        if self.place != len(self.content) or (len(entries), len(aliases)) != (count, num_aliases):
            raise ValueError
        return entries, aliases

    def _entry(self) -> tuple[str, NDArray[Any]]:
        """Return the next name and array, a view of the content; raise ValueError if size and shape do not match."""
        name = self._string()
        shape = tuple(self._number("I") for _ in range(self._number("B")))
        kind = np.dtype(TYPES[:3][self._number("B")])  # the other two are in no export
        return name, np.frombuffer(self._take(self._number("I")), kind).reshape(shape)

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
