"""Signals to a run: Ctrl-C and SIGTERM save a checkpoint and stop; SIGUSR1, or a file named .save, saves and continues.

A second Ctrl-C stops at once.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

SAVE: Final = ".save"
"""The name of a file in the run folder that requests a checkpoint. The launcher creates the file on SIGUSR1; on systems
without SIGUSR1, users create it."""

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code that shells report for a process ended by SIGTERM."""


def is_main_thread() -> bool:
    """Return True in the main thread, the only thread that can handle signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Call the handler for the given signals within the block. Outside the main thread, do nothing."""
    before = {number: signal.signal(number, handler) for number in numbers if is_main_thread()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class Terminated(BaseException):
    """Raised when SIGTERM stops the run. A BaseException, so that `except Exception` does not catch it."""

    def __init__(self, update: int, saved: bool) -> None:
        super().__init__(f"stopped by SIGTERM after update {update:,}")
        self.update, self.saved = update, saved


class SignalRequests:
    """The requests to save a checkpoint or to stop that this process has received."""

    def __init__(self, file: Path, on_interrupt: Callable[[], None] = lambda: None) -> None:
        """Remember the file that requests a checkpoint, and a callback for the first Ctrl-C."""
        self.file, self.on_interrupt = file, on_interrupt
        self.end = self.is_interrupted = False
        self._num_saves = self._num_taken = 0  # counted, as a signal may come while an earlier one is being served

    def handle(self) -> AbstractContextManager[None]:
        """Handle SIGINT, SIGTERM and SIGUSR1 within the block."""
        return handle_signals(self._on_signal, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            # A worker gets one Ctrl-C twice, from the terminal and from its launcher. Its launcher handles the second.
            if self.is_interrupted and "RANK" not in os.environ:
                raise KeyboardInterrupt
            if not self.is_interrupted:
                self.is_interrupted = True
                self.on_interrupt()
        self._num_saves += 1
        self.end = self.end or number in (signal.SIGINT, signal.SIGTERM)

    def check_file(self) -> None:
        """If the request file exists, remove it and count a request to save."""
        if self.file.exists():
            self.file.unlink(missing_ok=True)
            self._num_saves += 1

    def take_saves(self) -> int:
        """Return the number of requests to save since the last call."""
        saves = self._num_saves  # read once: a signal may come between two readings
        new, self._num_taken = saves - self._num_taken, saves
        return new
