"""Lines that come in bursts are answered when they stop coming, and errors come out where they are looked for."""

import threading
from collections.abc import Iterator

import pytest

from dragoman.cli.translate_bursts import Bursts


def gathered(burst: Iterator[int]) -> Iterator[list[int]]:
    yield list(burst)


def test_what_comes_without_a_pause_is_one_burst() -> None:
    assert list(Bursts(range(10_000), pause=5.0).each(gathered)) == [list(range(10_000))]


def test_nothing_gives_nothing() -> None:
    assert list(Bursts([], pause=5.0).each(gathered)) == []


def test_a_pause_ends_a_burst_so_that_an_answer_can_be_waited_for() -> None:
    answered = threading.Event()

    def waiting() -> Iterator[int]:
        for number in (1, 2):
            yield number
            assert answered.wait(10), "no answer came"
            answered.clear()

    found = []
    for burst in Bursts(waiting(), pause=0.01).each(gathered):
        found.append(burst)
        answered.set()
    assert found == [[1], [2]]


def test_an_error_comes_after_what_was_read_before_it() -> None:
    def broken() -> Iterator[int]:
        yield 7
        raise ValueError("line 2 is wrong")

    bursts = Bursts(broken(), pause=5.0).each(gathered)
    assert next(bursts) == [7]
    with pytest.raises(ValueError, match="line 2 is wrong"):
        next(bursts)


def test_no_more_is_read_ahead_than_can_be_held() -> None:
    read = 0

    def endless() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    bursts = Bursts(endless(), pause=5.0).each(iter)
    assert [next(bursts) for _ in range(3)] == [1, 2, 3]
    assert read < 5_000
