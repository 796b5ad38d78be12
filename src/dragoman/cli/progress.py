"""Progress on standard error: live bars with rate and time left on a terminal, plain lines when piped."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as LiveDisplay

from dragoman.cli.verbosity import is_quiet
from dragoman.io.progress import Progress, ignore_progress

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BEFORE_RATE = 0.5
"""A rate measured over less time says nothing."""


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[Progress]:
    """Yield a callback that shows progress on standard error, unless the command runs with --quiet."""
    if quiet or is_quiet():
        yield ignore_progress
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
        timing = (TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TimeRemainingColumn())
        with LiveDisplay(*columns, *timing, console=Console(stderr=True)) as display:  # redraws ten times a second
            yield _LiveProgress(display)
    else:
        yield _LineProgress()


class _LiveProgress:
    """A live display with one progress bar for each phase."""

    def __init__(self, display: LiveDisplay) -> None:
        self.display = display
        self.phases: dict[str, tuple[TaskID, float]] = {}

    def __call__(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:
        if what not in self.phases:
            for other, _ in self.phases.values():  # the length of a phase is known when the next one begins
                if self.display.tasks[other].total is None:
                    self.display.update(other, total=self.display.tasks[other].completed)
            self.phases[what] = (self.display.add_task(what, total=total, amount="", rate=""), time.monotonic())
        task, start = self.phases[what]
        amount = (f"{done:,} of {total:,}" if total else f"{done:,}") if done else ""  # some phases count nothing
        is_measured = done and time.monotonic() - start > _SECONDS_BEFORE_RATE
        rate = _format_rate(done, start, unit) if is_measured else ""
        self.display.update(task, completed=done, total=total, amount=amount, rate=rate)


class _LineProgress:
    """A plain-text display: one line when a phase begins, then one line every ten seconds."""

    def __init__(self) -> None:
        self.what, self.start, self.last_line = "", 0.0, 0.0

    def __call__(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:
        now = time.monotonic()
        if what != self.what:
            self.what, self.start, self.last_line = what, now, now
            print(what, file=sys.stderr, flush=True)
        elif now - self.last_line > _SECONDS_BETWEEN_LINES:
            self.last_line = now
            amount = f"{done:,} of {total:,}" if total else f"{done:,}"
            left = f", {(total - done) * (now - self.start) / done:,.0f} s left" if total and done else ""
            print(f"{what}: {amount}, {_format_rate(done, self.start, unit)}{left}", file=sys.stderr, flush=True)


def _format_rate(done: int, start: float, unit: str) -> str:
    return f"{done / max(time.monotonic() - start, 1e-3):,.0f}{f' {unit}' if unit else ''}/s"
