"""The callback type for the progress of long operations; `cli/progress.py` displays it."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """A callback to which a long operation reports its progress."""

    def __call__(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:
        """Report `done` of `total` units (None: unknown) of the step `what`, such as "clean train"."""


def ignore_progress(what: str, done: int, total: int | None = None, unit: str = "") -> None:
    """Do nothing: the default progress callback."""


def part_progress(progress: Progress, *, offset: int = 0, whole: int | None = None, name: str = "") -> Progress:
    """Return a progress callback for one part of a longer operation.

    `offset`, the units done before the part, is added to `done`. `whole` is the total of the operation; without
    `whole`, `offset` is added to the total of the part. `name` replaces the name of the step.
    """

    def report(what: str, done: int, total: int | None = None, unit: str = "") -> None:
        all_of_it = whole if whole is not None or total is None else offset + total
        progress(name or what, offset + done, all_of_it, unit)

    return report
