"""Workers in processes of their own. One that dies is noticed and replaced, and its shard is begun again."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.data.workers import end_with
from dragoman.decoding.bulk.settings import Job
from dragoman.decoding.bulk.work import ATTEMPTS, Outcome, ShardWorker

_TELL_S: Final = 0.5
_END_S: Final = 10.0
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG

Say = Callable[[str], None]
Rows = Callable[[Path, int], None]
"""A shard, and how many of its rows have been translated."""


class _Member(NamedTuple):
    """A worker, and what it is at."""

    process: BaseProcess
    pipe: Connection
    shard: Path


def in_crew(job: Job, shards: Sequence[Path], num_workers: int, say: Say, rows: Rows) -> Iterator[Outcome]:
    """The outcomes, in the order in which they come. However it ends, no worker is left behind."""
    crew = _Crew(job, shards, say, rows)
    try:
        yield from crew.outcomes(num_workers)
    finally:
        crew.dismiss()


class _Crew:
    """Who is at work. Each has a pipe of its own: nothing is shared that a death could leave locked."""

    def __init__(self, job: Job, shards: Sequence[Path], say: Say, rows: Rows) -> None:
        self.job, self.say, self.rows = job, say, rows
        self.waiting = deque(shards)
        self.begun: Counter[Path] = Counter()
        self.members: list[_Member] = []

    def outcomes(self, num_workers: int) -> Iterator[Outcome]:
        while self.waiting or self.members:
            while self.waiting and len(self.members) < num_workers:
                self.members.append(self._hired(self.waiting.popleft()))
            heard = wait([member.pipe for member in self.members])
            for member in [member for member in self.members if member.pipe in heard]:
                outcome = self._heard(member)
                if outcome is not None:
                    yield outcome

    def dismiss(self) -> None:
        for member in self.members:
            member.process.kill()
        for member in self.members:
            member.process.join()
            member.pipe.close()
        self.members.clear()

    def _hired(self, shard: Path) -> _Member:
        # Spawned, not forked: Arrow and CTranslate2 keep threads, which a fork would lose.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.job, os.getpid()))
        process.start()
        theirs.close()  # so that its death closes the pipe
        member = _Member(process, ours, shard)
        with suppress(OSError):  # dead already: it will be heard of
            ours.send(shard)
        self.begun[shard] += 1
        return member

    def _heard(self, member: _Member) -> Outcome | None:
        try:
            message = member.pipe.recv()
        except (EOFError, OSError):
            return self._lost(member)
        if not isinstance(message, Outcome):
            self.rows(member.shard, message)
            return None
        self._go_on(member)
        return message

    def _go_on(self, member: _Member) -> None:
        """The next shard for who has finished one; without one, the pipe is closed, and the worker ends."""
        self.members.remove(member)
        if self.waiting:
            shard = self.waiting.popleft()
            try:
                member.pipe.send(shard)
            except OSError:  # it died after its last word: the shard is not to blame
                self.waiting.appendleft(shard)
            else:
                self.begun[shard] += 1
                self.members.append(member._replace(shard=shard))
                return
        _end(member)

    def _lost(self, member: _Member) -> Outcome | None:
        self.members.remove(member)
        _end(member)
        shard, how = member.shard, _how(member.process.exitcode)
        if self.begun[shard] >= ATTEMPTS:
            return Outcome(shard, wrong=f"{shard}: {ATTEMPTS} workers died at it, the last {how}", lost=True)
        self.say(f"a worker died at {shard} ({how}): begun again, {self.begun[shard] + 1} of {ATTEMPTS} times")
        self.rows(shard, 0)
        self.waiting.appendleft(shard)
        return None


def _end(member: _Member) -> None:
    """It ends by itself when its pipe is closed, and is not waited for long."""
    member.pipe.close()
    member.process.join(_END_S)
    member.process.kill()
    member.process.join()


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _serve(pipe: Connection, job: Job, parent: int) -> None:
    """What a worker does: shard after shard, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    _die_with(parent)
    said = time.monotonic()

    def progress(rows: int) -> None:
        nonlocal said
        if time.monotonic() - said > _TELL_S:
            said = time.monotonic()
            pipe.send(rows)

    worker = ShardWorker(job, progress)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(worker(pipe.recv()))


def _die_with(parent: int) -> None:
    """A worker whose parent was killed must not write beside those of the next run."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    end_with(parent)
