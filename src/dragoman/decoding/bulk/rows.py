"""Rows go through the model as one stream, and each translation comes back beside what its text was read with."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

Translate = Callable[[Iterable[str]], Iterator[str]]
"""One translation for each text, in the same order, however many there are."""


class Columns(NamedTuple):
    """The names of what is read of a row, and of what is added to it."""

    text: str
    into: str


class Counts(NamedTuple):
    """What was in a shard."""

    rows: int
    nulls: int


def in_step(
    items: Iterable[tuple[ItemT, Sequence[str | None]]], translate: Callable[[Iterable[str]], Iterator[AnswerT]]
) -> Iterator[tuple[ItemT, list[AnswerT | None]]]:
    """Each item with the translations of its texts; None stays None. As little is held as `translate` reads ahead."""
    held: deque[tuple[ItemT, Sequence[str | None], int]] = deque()

    def texts() -> Iterator[str]:
        for item, some in items:
            there = [text for text in some if text is not None]
            held.append((item, some, len(there)))
            yield from there

    ready: list[AnswerT] = []
    for translation in translate(texts()):
        ready.append(translation)
        while held and held[0][2] <= len(ready):
            item, some, count = held.popleft()
            yield item, _in_place(some, ready[:count])
            ready = ready[count:]
    assert not ready, "one translation for each text"
    for item, some, _ in held:  # after the last text
        yield item, _in_place(some, [])


def _in_place(some: Sequence[str | None], translations: list[AnswerT]) -> list[AnswerT | None]:
    following = iter(translations)
    return [None if text is None else next(following) for text in some]
