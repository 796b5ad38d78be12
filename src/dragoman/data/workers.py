"""Pure functions over a list of tasks in several processes, in order, with their parent's death noticed."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

_LOOK_S = 0.5


def in_processes(work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], num_workers: int) -> Iterator[ResultT]:
    """The results in the order of the tasks. With one worker, or one task, all of it happens here."""
    if num_workers <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    # Spawned, not forked: Arrow and SentencePiece keep threads, which a fork would lose.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(num_workers, len(tasks)), mp_context=context, initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        try:
            yield from pool.map(work, tasks)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def end_with(parent: int) -> None:
    """A worker whose parent was killed would wait for its next task for ever, and hold on to the folder."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
