"""Pure functions over a list of tasks on a Ray cluster: what workers.py does on one machine, on many.

Every machine must have dragoman installed, and see the files under the same names: a shared folder. Which machine does
which task makes no difference to the bytes.
"""

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


def in_cluster(work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], num_workers: int) -> Iterator[ResultT]:
    """The results in the order of the tasks. Inside `with cluster(...)` that one is used, else one for this call."""
    if not tasks:
        return
    with cluster(num_workers) as data:
        pool = data.ActorPoolStrategy(size=num_workers)
        numbers = data.range(len(tasks), override_num_blocks=len(tasks))
        done = numbers.map(_Worker, fn_constructor_args=(work, list(tasks)), compute=pool)
        yield from _in_order(done.iter_rows())


class _Worker:
    """Does the tasks that it is given by number. It has them all: together they hold what is large, as the vocabulary,
    once.
    """

    def __init__(self, work: Callable[[Any], object], tasks: Sequence[Any]) -> None:
        self.work = work
        self.tasks = tasks

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["id"])
        try:
            return {"id": number, "result": pickle.dumps(self.work(self.tasks[number])), "wrong": ""}
        except ValueError as error:  # comes back as what it says, not wrapped in Ray's own errors
            return {"id": number, "result": b"", "wrong": str(error) or "no reason given"}


def _in_order(rows: Iterable[dict[str, Any]]) -> Iterator[Any]:
    """Results that come as they are done; one that comes too early waits."""
    early: dict[int, bytes] = {}
    following = 0
    for row in rows:
        if row["wrong"]:
            raise ValueError(row["wrong"])
        early[row["id"]] = row["result"]
        while following in early:
            yield pickle.loads(early.pop(following))
            following += 1
    assert not early


@contextmanager
def cluster(num_workers: int) -> Iterator[Any]:
    """Ray Data on the cluster that RAY_ADDRESS names, or on one that starts on this machine and ends with the block.

    It is quiet, and tells nobody of its use. Starting takes seconds: whoever calls `in_cluster` often does so inside.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError("working on a cluster needs Ray: pip install 'dragoman[ray]'") from error
    if ray.is_initialized():
        yield ray.data
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level=logging.ERROR)
    else:
        ray.init(
            "local",
            num_cpus=max(1, num_workers),
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield ray.data
    finally:
        ray.shutdown()
