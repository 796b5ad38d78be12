"""Apply a function to tasks on a Ray cluster, as processes.py does on a single machine.

Every machine must have dragoman installed, and access to the files under the same paths. The results do not depend on
which machine runs which task.
"""

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


def in_cluster(work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], num_workers: int) -> Iterator[ResultT]:
    """Apply `work` to tasks on a Ray cluster, and yield the results in task order.

    Use the cluster of an enclosing `cluster` block, or start a cluster.
    """
    if not tasks:
        return
    with cluster(num_workers) as data:
        pool = data.ActorPoolStrategy(size=min(num_workers, len(tasks)))
        numbers = data.range(len(tasks), override_num_blocks=len(tasks))
        rows = numbers.map(ClusterWorker, fn_constructor_args=(work, list(tasks)), compute=pool).iter_rows()
        for number, row in enumerate(rows):
            assert row["id"] == number
            if row["error"]:
                raise ValueError(row["error"])
            yield pickle.loads(row["result"])


class ClusterWorker:
    """A Ray actor that runs tasks by index. Each actor gets all tasks at once, so that tasks share large objects."""

    def __init__(self, work: Callable[[Any], object], tasks: Sequence[Any]) -> None:
        self.work = work
        self.tasks = tasks

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Run the task of a row; return a row with the pickled result, or with the message of a ValueError."""
        number = int(row["id"])
        try:
            return {"id": number, "result": pickle.dumps(self.work(self.tasks[number])), "error": ""}
        except ValueError as error:
            return {"id": number, "result": b"", "error": str(error) or "ValueError without a message"}


@contextmanager
def cluster(num_workers: int) -> Iterator[Any]:
    """Yield Ray Data, connected to the cluster at RAY_ADDRESS or to a temporary cluster on this machine.

    Progress bars and usage statistics are disabled. Starting takes seconds: use one block for all `in_cluster` calls.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError("Ray is not installed: pip install 'dragoman[ray]'") from error
    if ray.is_initialized():
        yield ray.data
        return
    local: dict[str, Any] = {"address": "local", "num_cpus": max(1, num_workers), "_node_ip_address": "127.0.0.1"}
    local |= {"include_dashboard": False, "log_to_driver": False}
    ray.init(logging_level=logging.ERROR, **({} if "RAY_ADDRESS" in os.environ else local))
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield ray.data
    finally:
        ray.shutdown()
