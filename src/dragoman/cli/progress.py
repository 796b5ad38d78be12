"""Progress of long work: a live line with rate and time left on a terminal, plain lines when piped."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dragoman.data.progress import Progress as Tell

_EVERY_S = 10.0


@contextmanager
def shown() -> Iterator[Tell]:
    """Show on standard error what is told: standard output is for results."""
    if sys.stderr.isatty():
        with _live() as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


def _live() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True))


class _Bars:
    """One bar for each thing done."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.tasks: dict[str, tuple[TaskID, float]] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if what not in self.tasks:
            self._finish()
            self.tasks[what] = (self.bars.add_task(what, total=total, rate=""), time.monotonic())
        task, begin = self.tasks[what]
        rate = done / max(time.monotonic() - begin, 1e-3)
        self.bars.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s" if done else "")

    def _finish(self) -> None:
        """What had no known end has reached it when the next thing begins."""
        for task, _ in self.tasks.values():
            if self.bars.tasks[task].total is None:
                self.bars.update(task, total=self.bars.tasks[task].completed)


class _Lines:
    """A line when something begins, and one every few seconds while it lasts."""

    def __init__(self) -> None:
        self.what, self.begin, self.said = "", 0.0, 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what != self.what:
            self.what, self.begin, self.said = what, now, now
            print(what, file=sys.stderr, flush=True)
        elif now - self.said > _EVERY_S:
            self.said = now
            rate = done / (now - self.begin)
            left = f", {(total - done) / rate:,.0f} s left" if total and rate else ""
            print(
                f"{what}: {done:,}{f' of {total:,}' if total else ''}, {rate:,.0f}/s{left}", file=sys.stderr, flush=True
            )
