"""A pool of worker processes: a worker that dies is replaced, and its shard is started again.

serving/engine_pool.py also supervises processes, but with asyncio, sockets and reloading of models. Code that both
share is in io/processes.py.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple

from dragoman.bulk.shard_worker import ATTEMPTS, BulkJob, ShardOutcome, ShardWorker
from dragoman.io.processes import exit_with_parent
from dragoman.io.remote_path import AnyPath

_REPORT_S: Final = 0.5
_END_S: Final = 10.0
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG

Warn = Callable[[str], None]
OnRows = Callable[[AnyPath, int], None]
"""Callback with a shard and the number of its rows that have been translated."""


def run_in_ray(job: BulkJob, shards: Sequence[AnyPath], num_workers: int) -> Iterator[ShardOutcome]:
    """Translate shards in Ray actors, and yield the outcomes in order; Ray restarts an actor that dies.

    The folders must have the same paths on every machine. The cluster has one more CPU than actors: without a free CPU,
    the task that feeds the actors would wait for ever.
    """
    from dragoman.io.ray_tasks import cluster, in_cluster

    absolute = replace(job, model=job.model.absolute(), out=job.out.absolute())
    with cluster(num_workers + 1):
        yield from in_cluster(ShardWorker(absolute), [shard.absolute() for shard in shards], num_workers)


def run_in_pool(
    job: BulkJob, shards: Sequence[AnyPath], num_workers: int, warn: Warn, on_rows: OnRows
) -> Iterator[ShardOutcome]:
    """Translate shards in worker processes, and yield an outcome as soon as a shard is finished.

    All worker processes are ended when the iterator ends, also after an error.
    """
    return _Pool(job, shards, warn, on_rows).outcomes(num_workers)


class _Worker(NamedTuple):
    """A worker process and the shard that it is translating."""

    process: BaseProcess
    pipe: Connection
    shard: AnyPath

    def end(self) -> None:
        """Close the pipe, which ends the process; kill the process if it is still running after _END_S seconds."""
        self.pipe.close()
        self.process.join(_END_S)
        self.process.kill()
        self.process.join()


class _Pool:
    """The worker processes. Each has a separate pipe, so that a dying worker cannot block the others."""

    def __init__(self, job: BulkJob, shards: Sequence[AnyPath], warn: Warn, on_rows: OnRows) -> None:
        self.job, self.warn, self.on_rows = job, warn, on_rows
        self.waiting = deque(shards)
        self.attempts: Counter[AnyPath] = Counter()
        self.workers: list[_Worker] = []

    def outcomes(self, num_workers: int) -> Iterator[ShardOutcome]:
        try:
            while self.waiting or self.workers:
                while self.waiting and len(self.workers) < num_workers:
                    self.workers.append(self._start(self.waiting.popleft()))
                ready = wait([worker.pipe for worker in self.workers])
                for worker in [worker for worker in self.workers if worker.pipe in ready]:
                    outcome = self._receive(worker)
                    if outcome is not None:
                        yield outcome
        finally:
            for worker in self.workers:
                worker.process.kill()
            for worker in self.workers:
                worker.process.join()
                worker.pipe.close()

    def _start(self, shard: AnyPath) -> _Worker:
        # Spawned, not forked: Arrow and CTranslate2 keep threads, which a fork would lose.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.job, os.getpid()))
        process.start()
        theirs.close()  # so that its death closes the pipe
        with suppress(OSError):  # dead already: its pipe reports it
            ours.send(shard)
        self.attempts[shard] += 1
        return _Worker(process, ours, shard)

    def _receive(self, worker: _Worker) -> ShardOutcome | None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._replace_dead(worker)
        if not isinstance(message, ShardOutcome):
            self.on_rows(worker.shard, message)
            return None
        self._assign_next(worker)
        return message

    def _assign_next(self, worker: _Worker) -> None:
        """Send the next shard to an idle worker, or end the worker if no shard is left."""
        self.workers.remove(worker)
        if self.waiting:
            shard = self.waiting.popleft()
            try:
                worker.pipe.send(shard)
            except OSError:  # it died after its last message: the shard is not to blame
                self.waiting.appendleft(shard)
            else:
                self.attempts[shard] += 1
                self.workers.append(worker._replace(shard=shard))
                return
        worker.end()

    def _replace_dead(self, worker: _Worker) -> ShardOutcome | None:
        self.workers.remove(worker)
        worker.end()
        shard, how = worker.shard, _describe_exit(worker.process.exitcode)
        if self.attempts[shard] >= ATTEMPTS:
            return ShardOutcome(shard, wrong=f"{shard} killed {ATTEMPTS} workers, the last {how}", is_lost=True)
        self.warn(f"a worker died at {shard} ({how}): starting attempt {self.attempts[shard] + 1} of {ATTEMPTS}")
        self.on_rows(shard, 0)
        self.waiting.appendleft(shard)
        return None


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _work(pipe: Connection, job: BulkJob, parent: int) -> None:
    """Translate shards until the pipe is closed: the main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    _die_with(parent)
    last_report = time.monotonic()

    def on_rows(rows: int) -> None:
        nonlocal last_report
        if time.monotonic() - last_report > _REPORT_S:
            last_report = time.monotonic()
            pipe.send(rows)

    worker = ShardWorker(job, on_rows)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(worker(pipe.recv()))


def _die_with(parent: int) -> None:
    """End this worker process when its parent dies, so that only a later run writes to the output folder."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    exit_with_parent(parent)
