"""Standard input in bursts: what has come is translated as soon as nothing more comes, so that nobody waits in vain."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

PAUSE: Final = 0.05
"""Seconds without a line, after which those that have come are no longer kept waiting."""

_AHEAD: Final = 4096


class _End(NamedTuple):
    """Nothing more comes, because of this error if there was one."""

    error: BaseException | None


class Bursts(Generic[ItemT]):
    """Items that another thread is reading."""

    def __init__(self, items: Iterable[ItemT], pause: float = PAUSE) -> None:
        self._items = items
        self._pause = pause
        self._queue: queue.Queue[ItemT | _End] = queue.Queue(_AHEAD)
        self._end: _End | None = None

    def each(self, translate: Callable[[Iterator[ItemT]], Iterator[AnswerT]]) -> Iterator[AnswerT]:
        """What `translate` makes of each burst, one after the other; a file or a fast program is a single one."""
        threading.Thread(target=self._read, daemon=True).start()  # it may be waiting for a line that never comes
        while (first := self._next(None)) is not None:
            yield from translate(self._burst(first[0]))
        if self._end and self._end.error:
            raise self._end.error

    def _burst(self, first: ItemT) -> Iterator[ItemT]:
        yield first
        while (item := self._next(self._pause)) is not None:
            yield item[0]

    def _next(self, pause: float | None) -> tuple[ItemT] | None:
        """None at the end, and if it has not come after the pause."""
        if self._end:
            return None
        try:
            item = self._queue.get(timeout=pause)
        except queue.Empty:
            return None
        if isinstance(item, _End):
            self._end = item
            return None
        return (item,)

    def _read(self) -> None:
        error = None
        try:
            for item in self._items:
                self._queue.put(item)
        except BaseException as found:
            error = found
        self._queue.put(_End(error))
