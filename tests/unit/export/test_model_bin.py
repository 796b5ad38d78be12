"""The file of weights as CTranslate2 reads it: read back here by a reader of its own."""

import struct
from collections.abc import Iterator

import numpy as np

from dragoman.export.model_bin import aliases, write_model_bin


class Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.content, self.place)
        self.place += struct.calcsize(form)
        return int(value)

    def take(self, count: int) -> bytes:
        self.place += count
        return self.content[self.place - count : self.place]

    def string(self) -> str:
        return self.take(self.number("H")).removesuffix(b"\0").decode()

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        types = [np.float32, np.int8, np.int16]
        for _ in range(self.number("I")):
            name = self.string()
            shape = [self.number("I") for _ in range(self.number("B"))]
            kind = types[self.number("B")]
            yield name, np.frombuffer(self.take(self.number("I")), kind).reshape(shape)


def test_what_is_written_is_read_in_the_order_of_names() -> None:
    arrays = {
        "b/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a/small": np.array([-3, 7], np.int8),
        "c": np.array(5, np.int16),
    }
    reader = Reader(write_model_bin(arrays, {"z": "b/weight", "d": "a/small"}))
    assert (reader.number("I"), reader.string(), reader.number("I")) == (6, "TransformerSpec", 7)
    found = dict(reader.arrays())
    assert list(found) == ["a/small", "b/weight", "c"]
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    assert [[reader.string(), reader.string()] for _ in range(reader.number("I"))] == [
        ["d", "a/small"],
        ["z", "b/weight"],
    ]
    assert reader.place == len(reader.content)


def test_what_is_equal_has_the_first_name_and_single_numbers_are_never_shared() -> None:
    ones = np.ones((2, 3), np.float32)
    named = {
        "c": ones.copy(),
        "a": ones,
        "b": ones.reshape(3, 2),
        "d": np.ones((2, 3), np.int16),
        "x": np.array(1.0, np.float32),
        "y": np.array(1.0, np.float32),
    }
    assert aliases(named) == {"c": "a"}


def test_arrays_that_are_views_are_written_as_they_look() -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    reader = Reader(write_model_bin({"a": turned}, {}))
    reader.number("I"), reader.string(), reader.number("I")
    assert np.array_equal(dict(reader.arrays())["a"], turned)
