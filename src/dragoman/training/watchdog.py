"""Notices a run that hangs, and says which process the others wait for.

Each process leaves a mark in the folder of the run: which update it is in, and how far. A thread writes it now and
then, so that training itself waits for no disk. When no mark has changed for a while and one of them is behind, the
first process that is not says so. It ends nothing: torch gives up after its own, longer time, and the launcher starts
all processes again.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from dragoman.training.parallel import Group

BEATS: Final = ".beats"
PATIENCE: Final = 120.0
"""Seconds without a change before anything is said. A long validation changes nothing either, but nobody is behind."""

_DOING: Final = ("is reading batches", "is computing gradients", "waits for the others", "is validating or saving")
Stage = Literal[0, 1, 2, 3]


class Watchdog:
    """One in each process. Use it in a `with` statement."""

    def __init__(
        self,
        folder: Path,
        group: Group,
        patience: float = PATIENCE,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        self.folder, self.group, self.patience, self.say = folder / BEATS, group, patience, say
        self._mark: tuple[int, Stage] = (0, 0)
        self._over = threading.Event()

    def __enter__(self) -> "Watchdog":
        if self.group.size > 1:
            self.folder.mkdir(parents=True, exist_ok=True)
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def beat(self, update: int, stage: Stage) -> None:
        """Say how far this process is; it costs nothing."""
        self._mark = update, stage

    def _file(self, rank: int) -> Path:
        return self.folder / str(rank)

    def _watch(self) -> None:
        marks, since = self._marks(), time.monotonic()
        while not self._over.wait(self.patience / 10):
            now = self._marks()
            if now != marks:
                marks, since = now, time.monotonic()
            elif time.monotonic() - since >= self.patience:
                self._tell(marks, time.monotonic() - since)
                since = time.monotonic()

    def _marks(self) -> list[tuple[int, int]]:
        """Update and stage of each process, this one's left anew; one that has left no mark has not begun."""
        update, stage = self._mark
        self._file(self.group.rank).write_text(f"{update} {stage}", encoding="utf-8")
        return [_mark(self._file(rank)) for rank in range(self.group.size)]

    def _tell(self, marks: list[tuple[int, int]], seconds: float) -> None:
        furthest = max(marks)
        behind = [rank for rank, mark in enumerate(marks) if mark < furthest]
        speaker = next(rank for rank, mark in enumerate(marks) if mark == furthest)
        if behind and speaker == self.group.rank:
            names = "; ".join(
                f"process {rank} {_DOING[marks[rank][1]]} in update {marks[rank][0]:,}" for rank in behind
            )
            self.say(f"nothing has moved for {seconds:.0f} s: {names}, and the others wait for it")


def _mark(path: Path) -> tuple[int, int]:
    try:
        update, stage = path.read_text(encoding="utf-8").split()
        return int(update), int(stage)
    except (OSError, ValueError):  # not begun, or being written this moment
        return (-1, 0)
