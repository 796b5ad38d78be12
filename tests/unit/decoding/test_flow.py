"""Texts beside what comes of them."""

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from dragoman.decoding.flow import beside


def three_at_a_time(texts: Iterable[str]) -> Iterator[int]:
    texts = iter(texts)
    while some := list(islice(texts, 3)):
        yield from map(len, some)


def test_each_text_stands_beside_its_own_however_far_ahead_they_are_read() -> None:
    texts = ["", "a", "bcd", "ef", "", "ghijk", "lm"]
    assert list(beside(iter(texts), three_at_a_time)) == [(text, len(text)) for text in texts]
    assert list(beside([], three_at_a_time)) == []


def test_no_more_is_read_than_the_work_reads() -> None:
    taken: list[str] = []
    found = beside((taken.append(text) or text for text in "abcdefgh"), three_at_a_time)
    assert taken == []
    assert next(found) == ("a", 1)
    assert taken == ["a", "b", "c"]


def test_what_is_refused_at_once_is_not_put_off_until_something_is_asked_for() -> None:
    def refused(texts: Iterable[str]) -> Iterator[int]:
        raise ValueError(f"not {next(iter(texts))}")

    with pytest.raises(ValueError, match="not this"):
        beside(["this"], refused)
