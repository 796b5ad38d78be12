"""What is asked of a run: SIGTERM to save and end, SIGUSR1 (or a file named .save) to save and go on.

Heard between two updates.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

SAVE: Final = ".save"
"""A file of this name in the folder of a run asks for a checkpoint: the launcher, which hears a signal, has no ear of
each process, and other systems have no such signal."""

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of what was ended by SIGTERM, as shells have it."""


class Terminated(BaseException):
    """The run was asked to end, and has saved its state. No error: nobody should mend it, so nobody catches it."""

    def __init__(self, update: int, saved: bool) -> None:
        super().__init__(f"asked to end after update {update:,}")
        self.update, self.saved = update, saved


@dataclass
class Wishes:
    """What this process has been asked for."""

    file: Path
    saves: int = 0
    """How often. Counted, as a signal may come at any moment: also while an earlier wish is being fulfilled."""
    end: bool = False
    _seen: int = 0

    def hear(self, number: int, _: FrameType | None) -> None:
        """As a handler of signals. All else waits for the end of the update."""
        self.saves += 1
        self.end = self.end or number == signal.SIGTERM

    def new_saves(self) -> int:
        """How often a save was asked for since this was last looked at."""
        saves = self.saves  # read once: a signal may come between two readings
        new, self._seen = saves - self._seen, saves
        return new

    def look(self) -> None:
        """See whether there is the file, which is then removed."""
        if self.file.exists():
            self.file.unlink(missing_ok=True)
            self.saves += 1


@dataclass(frozen=True)
class Agreed:
    """What all processes do, because one of them was asked or needs to."""

    save: bool = False
    end: bool = False
    pieces: int = 1
    """Into which each batch is cut, for lack of memory."""

    def after(self, saves: float, ends: float, finer: float) -> "Agreed":
        """After an update in which so many processes were asked to save, or to end, or had to cut batches finer."""
        return Agreed(saves > 0.0, ends > 0.0, self.pieces * 2 if finer else self.pieces)


@contextmanager
def heard(wishes: Wishes) -> Iterator[None]:
    """Within it, signals become wishes. Only Python's main thread can hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, wishes.hear) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
