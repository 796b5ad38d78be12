"""Report a run in which no process makes progress: where each process waits, and on which host.

Each process writes a mark to the run folder: its update, what it does, and its host. The first process of every block
of about √N processes copies the marks of its block to one file, and the first process of all reads these files. So no
process opens more than about 2√N files at a time. A watchdog ends nothing: a process that has waited for its timeout
raises an error, and the launcher restarts all processes.
"""

import json
import math
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.training.config import format_duration
from dragoman.training.parallel import Group

MARKS: Final = ".marks"
PARTS: Final = 5
"""A stall is reported after this part of the timeout: 2 of 10 minutes."""
_ROUNDS: Final = 10
"""Rounds of writing and reading marks before a stall is reported."""


class Mark(NamedTuple):
    """The mark of a process: how far it is."""

    host: str
    round: int
    """Counts the marks that this process has written: it grows as long as the process lives and reaches the folder."""
    step: int
    """Counts the steps of training."""
    update: int
    doing: str


class Watchdog:
    """The watchdog of one process. Use in a `with` statement; a process that trains alone has nothing to watch."""

    def __init__(
        self,
        folder: Path,
        group: Group,
        on_stall: Callable[[int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember the run folder, and a callback for a stall, called with the update and a message."""
        self.folder, self.group, self.on_stall, self.clock = folder / MARKS, group, on_stall, clock
        self.patience = group.timeout / PARTS
        self._mark = Mark(socket.gethostname(), 0, 0, 0, "starting")
        self._round = 0
        self._block = math.isqrt(group.world_size - 1) + 1
        # If the first process is silent, the first process of each host says so, and the second of all.
        self._is_deputy = group.rank == 1 or (group.rank > 0 and os.environ.get("LOCAL_RANK") == "0")
        self._history = [_History(clock()) for _ in range(group.world_size)]
        self._is_reported = False
        self._is_over = threading.Event()

    def __enter__(self) -> "Watchdog":
        if self.group.world_size > 1:
            self.folder.mkdir(parents=True, exist_ok=True)
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self.group.is_first:
            shutil.rmtree(self.folder, ignore_errors=True)

    def step(self, update: int, doing: str) -> None:
        """Note a step of training, such as "computing gradients"; the cost is that of an assignment."""
        self._mark = self._mark._replace(step=self._mark.step + 1, update=update, doing=doing)

    def progress(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:  # noqa: ARG002
        """Note a step of an operation that reports its progress, such as a validation."""
        self.step(self._mark.update, self._mark.doing)

    def _watch(self) -> None:
        while not self._is_over.wait(self.patience / _ROUNDS):
            try:
                self.check()
            except OSError:  # such as a full disk: the next round may succeed
                continue

    def check(self) -> None:
        """Write and read marks once, and report if there was no progress for a part of the timeout."""
        rank, world_size, now = self.group.rank, self.group.world_size, self.clock()
        self._round += 1
        own = self._mark._replace(round=self._round)  # training may change the mark at any time
        _write(self._mark_file(rank), [own])
        if rank % self._block == 0:
            members = range(rank, min(rank + self._block, world_size))
            _write(self._block_file(rank), [_read(self._mark_file(member), 1)[0] for member in members])
        if rank == 0:
            firsts = range(0, world_size, self._block)
            marks = [mark for first in firsts for mark in _read(self._block_file(first), self._block)]
        elif self._is_deputy:
            marks = _read(self._mark_file(0), 1)
        else:
            return
        for history, mark in zip(self._history, marks, strict=False):
            history.add(mark, now)
        self._judge(now)

    def _judge(self, now: float) -> None:
        """Report a stall once: the first process for all; a deputy only if the first process writes no marks."""
        if self.group.rank == 0:
            idle = now - max(history.stepped_at for history in self._history)
            message = f"no process has made progress for {idle:.0f} s: {self._describe(now)}"
        else:
            idle = now - self._history[0].written_at
            own = _describe([self.group.rank], self._mark)
            message = f"process 0 has written no mark to {self.folder} for {idle:.0f} s; {own}"
        if idle < self.patience:
            self._is_reported = False
        elif not self._is_reported:
            self._is_reported = True
            end = (
                f"a process that waits for {format_duration(self.group.timeout)} (--timeout) ends, and all start again"
            )
            self.on_stall(self._mark.update, f"{message}; {end}")

    def _describe(self, now: float) -> str:
        silent_s = 4 * self.patience / _ROUNDS
        silent = [rank for rank, history in enumerate(self._history) if now - history.written_at > silent_s]
        alive: dict[Mark, list[int]] = {}
        for rank, history in enumerate(self._history):
            if rank not in silent and history.mark:
                alive.setdefault(history.mark._replace(round=0, step=0), []).append(rank)
        parts = [_describe(ranks, mark) for mark, ranks in alive.items()]
        if silent:
            hosts = sorted({mark.host for rank in silent if (mark := self._history[rank].mark)})
            parts.append(f"no sign of {_ranks(silent)}{_on(hosts)}")
        elif len(hosts := sorted({mark.host for mark in alive})) > 1:
            parts.append(f"all are alive, so the network between {' and '.join(hosts[:2])} may be cut")
        return "; ".join(parts)

    def _mark_file(self, rank: int) -> Path:
        return self.folder / str(rank)

    def _block_file(self, rank: int) -> Path:
        return self.folder / f"{rank}-{rank + self._block - 1}"


def _write(path: Path, marks: Sequence[Mark | None]) -> None:
    path.write_text(json.dumps(marks), encoding="utf-8")


def _read(path: Path, count: int) -> list[Mark | None]:
    """Return the marks in a file; all are unknown if the file does not exist or is being written."""
    try:
        return [mark and Mark(*mark) for mark in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return [None] * count


class _History:
    """The newest mark of a process, and when it last changed."""

    def __init__(self, now: float) -> None:
        self.mark: Mark | None = None
        self.written_at = self.stepped_at = now

    def add(self, mark: Mark | None, now: float) -> None:
        if mark is None or mark == self.mark:
            return
        if self.mark is None or mark._replace(round=0) != self.mark._replace(round=0):
            self.stepped_at = now
        self.mark, self.written_at = mark, now


def _describe(ranks: Sequence[int], mark: Mark) -> str:
    return f"{_ranks(ranks)}{_on([mark.host])}: {mark.doing}, update {mark.update:,}"


def _on(hosts: Sequence[str]) -> str:
    return f" on {', '.join(hosts)}" if hosts else ""


def _ranks(ranks: Sequence[int]) -> str:
    """Return ranks as text: `process 3`, `processes 0-7`, `processes 1, 2, 5 and 9 more`."""
    if len(ranks) == 1:
        return f"process {ranks[0]}"
    if list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"processes {ranks[0]}-{ranks[-1]}"
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"processes {', '.join(map(str, ranks[:8]))}{more}"
