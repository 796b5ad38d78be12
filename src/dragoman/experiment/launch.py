"""Starts the processes of a training on this machine, with torch's own launcher (the engine of torchrun)."""

import json
import logging
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Final

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from dragoman.data.cores import num_cores

WORKER: Final = "dragoman.cli.worker"
ORDERS: Final = "DRAGOMAN_ORDERS"
"""The environment variable with what a worker is told beside the folder, as JSON."""


def num_processes(wanted: int | None, batches_per_update: int) -> int:
    """As many as share the batches of an update evenly, at most one for each core, unless the user says."""
    if wanted is not None:
        return wanted
    return max(number for number in range(1, num_cores() + 1) if batches_per_update % number == 0)


def launch(folder: Path, processes: int, command: str, tensorboard: bool) -> None:
    """Train what `begin` prepared, in so many processes, each with its share of the cores."""
    complaint = folder / ".complaint"
    complaint.unlink(missing_ok=True)
    orders = {"command": command, "tensorboard": tensorboard, "complaint": str(complaint)}
    os.environ[ORDERS] = json.dumps(orders)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, num_cores() // processes)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what fails, the worker says itself
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.2,
    )
    try:
        # -P: whatever lies in the folder one stands in, such as a file random.py, is no part of Python.
        elastic_launch(config, sys.executable)("-P", "-m", WORKER, str(folder))
    except SignalException as error:
        if error.sigval is signal.SIGINT:
            raise KeyboardInterrupt from error
        raise
    except ChildFailedError as error:
        if complaint.exists():
            raise ValueError(complaint.read_text(encoding="utf-8")) from error
        _, failure = error.get_first_failure()
        raise RuntimeError(f"a training process ended with exit code {failure.exitcode}; see above") from error
    finally:
        complaint.unlink(missing_ok=True)
