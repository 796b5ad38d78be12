"""Every translation comes back beside its own row, however far the translator reads ahead."""

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from dragoman.decoding.bulk.rows import in_step

ITEMS: list[tuple[str, list[str | None]]] = [
    ("first", ["a", None, "b"]),
    ("nothing", []),
    ("nulls", [None, None]),
    ("one", ["c"]),
    ("more", ["d", "e", None]),
    ("last", [None]),
]


def by(window: int, read: list[str] | None = None) -> object:
    """Reads so many texts before it gives the first of their translations."""

    def translate(texts: Iterable[str]) -> Iterator[str]:
        texts = iter(texts)
        while some := list(islice(texts, window)):
            if read is not None:
                read.extend(some)
            yield from (text.upper() for text in some)

    return translate


@pytest.mark.parametrize("window", [1, 2, 3, 5, 100])
def test_translations_stand_where_their_texts_stood(window: int) -> None:
    assert list(in_step(ITEMS, by(window))) == [
        ("first", ["A", None, "B"]),
        ("nothing", []),
        ("nulls", [None, None]),
        ("one", ["C"]),
        ("more", ["D", "E", None]),
        ("last", [None]),
    ]


def test_without_any_text_items_come_back_all_the_same() -> None:
    assert list(in_step([("x", [None]), ("y", [])], by(3))) == [("x", [None]), ("y", [])]
    assert list(in_step([], by(3))) == []


def test_no_more_is_read_than_the_translator_asks_for() -> None:
    read: list[str] = []
    endless = ((number, [f"text {number}"]) for number in iter(int, 1))
    results = in_step(endless, by(7, read))
    for _ in range(8):
        next(results)
    assert len(read) == 14
