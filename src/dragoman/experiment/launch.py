"""Starts the processes of a training on this machine, with torch's own launcher (the engine of torchrun)."""

import json
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from dragoman.data.cores import num_cores
from dragoman.training.wishes import SAVE, TERMINATED

WORKER: Final = "dragoman.cli.worker"
ORDERS: Final = "DRAGOMAN_ORDERS"
"""The environment variable with what a worker is told beside the folder, as JSON."""

RESTARTS: Final = 10
"""How often the processes are started again when one of them dies; each time they go on from the last checkpoint."""


def num_processes(wanted: int | None, batches_per_update: int) -> int:
    """As many as share the batches of an update evenly, at most one for each core, unless the user says."""
    if wanted is not None:
        return wanted
    return max(number for number in range(1, num_cores() + 1) if batches_per_update % number == 0)


def launch(folder: Path, processes: int, command: str, tensorboard: bool) -> None:
    """Train what `begin` prepared, in so many processes, each with its share of the cores."""
    complaint, failure = folder / ".complaint", folder / ".failure"
    _forget(complaint, failure)
    orders = {"command": command, "tensorboard": tensorboard, "complaint": str(complaint), "failure": str(failure)}
    os.environ[ORDERS] = json.dumps(orders)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, num_cores() // processes)))
    # Without it, restarted workers read the address of the dead one from the old store, and fail to meet.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    for name in ("", ".agent.server.api"):  # what fails, the worker says itself
        logging.getLogger(f"torch.distributed.elastic{name}").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        monitor_interval=0.2,
    )
    try:
        # -P: whatever lies in the folder one stands in, such as a file random.py, is no part of Python.
        with _saving_when_asked(folder):
            elastic_launch(config, sys.executable)("-P", "-m", WORKER, str(folder))
    except SignalException as error:
        if complaint.exists():
            raise ValueError(complaint.read_text(encoding="utf-8")) from error
        if error.sigval is signal.SIGINT:
            raise KeyboardInterrupt from error
        if error.sigval is signal.SIGTERM:
            raise SystemExit(TERMINATED) from error
        raise
    except ChildFailedError as error:
        if complaint.exists():
            raise ValueError(complaint.read_text(encoding="utf-8")) from error
        _, first = error.get_first_failure()
        raise RuntimeError(f"a training process ended with exit code {first.exitcode}; see above") from error
    finally:
        _forget(complaint, failure)


def _forget(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


@contextmanager
def _saving_when_asked(folder: Path) -> Iterator[None]:
    """Within it, SIGUSR1 lets the first of the processes save its state."""
    before = signal.signal(signal.SIGUSR1, lambda *_: (folder / SAVE).touch())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
