"""Worker processes: apply a function to tasks, with results in order; workers exit with their parent process."""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from dragoman.io.cgroup import cpu_quota

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

_SECONDS_BETWEEN_CHECKS: Final = 0.5

_work: Callable[[Any], Any]
"""The function that a worker process applies to its tasks."""


def num_cores() -> int:
    """Return the number of CPU cores that this process may use: in a container, as many as its quota of CPU time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def in_processes(work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], num_workers: int) -> Iterator[ResultT]:
    """Apply `work` to tasks in worker processes, and yield the results in task order.

    With one worker or one task, this process does the work.
    """
    if num_workers <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    with worker_pool(work, min(num_workers, len(tasks))) as submit:
        results = deque(submit(task) for task in tasks)
        while results:
            yield results.popleft().result()


@contextmanager
def worker_pool(work: Callable[[TaskT], ResultT], num_workers: int) -> Iterator[Callable[[TaskT], Future[ResultT]]]:
    """Yield a function that submits a task to a pool of worker processes; `work` is sent once to each worker.

    Tasks that have not started when the block ends are cancelled. Raise RuntimeError if a worker dies.
    """
    # Spawned, not forked: Arrow and SentencePiece keep threads, which a fork would lose.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_workers, context, initializer=_start_worker, initargs=(os.getpid(), work))
    try:
        yield lambda task: pool.submit(_do_task, task)
    except BrokenProcessPool as error:
        fix = "use fewer workers if memory ran out; in a script, start workers under `if __name__ == '__main__'`"
        raise RuntimeError(f"a worker process died: {fix}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(parent: int, work: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    exit_with_parent(parent)
    global _work
    _work = work


def _do_task(task: Any) -> Any:
    return _work(task)


def exit_with_parent(parent: int) -> None:
    """Start a thread that ends this process soon after its parent has died."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_CHECKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
