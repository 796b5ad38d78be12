"""The launchers: train in this process, in several processes of this machine, or in the processes of torchrun.

torch is imported late, so that errors in a request are reported quickly.
"""

import json
import logging
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client, Listener
from typing import Any, Final, TypeVar

from dragoman.device import AUTO, choose_device, count_devices, is_lost_peer, load_torch
from dragoman.experiment.log import Event, EventCallback
from dragoman.experiment.request import TrainRequest
from dragoman.io.processes import exit_with_parent, num_cores
from dragoman.io.torchrun import LAUNCHER, SECONDS_FOR_MESSAGE, end_torchrun, is_under_torchrun
from dragoman.training.config import TIMEOUT, format_duration, parse_duration
from dragoman.training.signals import SAVE, TERMINATED, handle_signals, is_main_thread

RESTARTS: Final = 10
"""The maximum number of restarts after a process dies; each restart resumes from the last checkpoint."""

SECONDS_TO_STOP: Final = 300
"""The time for a validation and a checkpoint after a signal, before torch kills the training processes."""

USER_ERROR: Final = 2
"""The exit code for an error that the user has to fix."""

T = TypeVar("T")


class Launcher:
    """A launcher that trains in this process; the base class of all launchers. Use in a `with` statement."""

    def __init__(self, device: str = AUTO) -> None:
        self.device = device
        """The name of the device to train on."""

    is_first = True
    """True in the process that prepares the data, reports events and writes files."""

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        pass

    def num_processes(self, requested: int | None, _batches_per_update: int) -> int:
        """Return the number of training processes."""
        if requested not in (None, 1):
            raise ValueError(f"--processes {requested} conflicts with a single-process launcher: leave out --processes")
        return 1

    def num_local(self, processes: int) -> int:
        """Return the number of training processes on this machine."""
        return processes

    def run_on_first(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process, and return the result in all processes."""
        return work()

    def train(self, request: TrainRequest, _processes: int, on_event: EventCallback) -> None:
        """Train in the prepared run folder, and write the bundle to the folder."""
        load_torch()
        from dragoman.experiment.train_model import train_model
        from dragoman.training.parallel import Group

        train_model(
            request.out, Group(device=choose_device(self.device)), on_event, request.command, request.tensorboard
        )


class LocalProcesses(Launcher):
    """A launcher that trains in several processes of this machine, started by torch's elastic launcher."""

    def num_processes(self, requested: int | None, batches_per_update: int) -> int:
        """Return the requested number of processes.

        The default is the largest number, up to one per accelerator or core, that divides `batches_per_update`.
        """
        if requested is not None:
            return requested
        most = count_devices(self.device) or num_cores()
        return max(number for number in range(1, most + 1) if batches_per_update % number == 0)

    def train(self, request: TrainRequest, processes: int, on_event: EventCallback) -> None:
        """Start the training processes, forward their events, and restart all processes if a process dies."""
        if processes == 1:
            super().train(request, 1, on_event)
            return
        load_torch()
        from torch.distributed.elastic.multiprocessing import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        folder = request.out
        for name in ("", ".agent.server.api"):  # the workers report what fails
            logging.getLogger(f"torch.distributed.elastic{name}").setLevel(logging.CRITICAL)
        rdzv: dict[str, Any] = {"run_id": uuid.uuid4().hex, "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
        times: dict[str, Any] = {"monitor_interval": 0.2, "shutdown_timeout": SECONDS_TO_STOP}
        own: dict[str, Any] = {"signals_to_handle": "SIGHUP"}  # SIGINT and SIGTERM are handled below
        config = LaunchConfig(1, 1, processes, max_restarts=RESTARTS, **times, **rdzv, **own)
        threads = os.environ.get("OMP_NUM_THREADS", str(max(1, num_cores() // processes)))
        # The second: or else restarted workers read the address of the dead one from the old store, and fail to meet.
        variables = {"OMP_NUM_THREADS": threads, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        supervisor = _Supervisor(on_event)
        saving = handle_signals(lambda *_: (folder / SAVE).touch(), signal.SIGUSR1)

        def stop(number: int, _: object) -> None:
            supervisor.signal = number
            raise SignalException(f"stopped by signal {number}", signal.Signals(number))

        stopping = handle_signals(stop, signal.SIGINT, signal.SIGTERM)
        try:
            with supervisor.receiving() as address, _environment(variables), saving, stopping:
                options = {"command": request.command, "tensorboard": request.tensorboard, "address": address}
                options["timeout"] = parse_duration(request.timeout)
                options["device"] = self.device
                # -P: a file such as random.py in the current folder is no part of Python.
                arguments = ("-P", "-m", "dragoman.experiment.worker", str(folder), json.dumps(options))
                elastic_launch(config, sys.executable)(*arguments)
        except (SignalException, SystemExit) as error:
            is_interrupt = isinstance(error, SignalException) and error.sigval is signal.SIGINT
            raise (supervisor.error or (KeyboardInterrupt() if is_interrupt else SystemExit(TERMINATED))) from error
        except ChildFailedError as error:
            _, first = error.get_first_failure()
            failed = RuntimeError(f"a training process ended with exit code {first.exitcode}: see the error above")
            raise (supervisor.error or failed) from error
        if supervisor.error:
            raise supervisor.error


class Torchrun(Launcher):
    """A launcher for the processes that torchrun started, on one machine or on several with a shared folder."""

    def __init__(self, device: str = AUTO, timeout: float = parse_duration(TIMEOUT)) -> None:
        """Set the device, and the seconds that a process waits for the others before it raises an error."""
        super().__init__(device)
        self._timeout = timeout
        self._failure: Exception | None = None
        """The error of the work of the first process, which a restart does not fix."""

    def __enter__(self) -> "Torchrun":
        from dragoman.training.parallel import init_group

        exit_with_parent(LAUNCHER)  # a torchrun that was killed can start none of us again: others may train here
        self._joined = ExitStack()
        self._group = self._joined.enter_context(init_group(choose_device(self.device), self._timeout))
        self._preparing = self._group.new_process_group()  # the others wait longer while the first prepares the text
        self.is_first = self._group.is_first
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Leave the process group; if another process was lost, exit, so that torchrun restarts all processes.

        An error that the user has to fix ends torchrun, which would otherwise restart the processes in vain.
        """
        self._joined.close()
        if error is not None and is_lost_process(error):
            if is_under_torchrun():
                print(f"{describe_loss(error)}; resuming from the last checkpoint", file=sys.stderr, flush=True)
            os._exit(1)  # a checkpoint that is still being written waits for the lost process
        if isinstance(error, SystemExit) and error.code == USER_ERROR:
            time.sleep(SECONDS_FOR_MESSAGE)  # usually torchrun ends us meanwhile
            end_torchrun()
        elif isinstance(error, ValueError) or (error is not None and error is self._failure):
            end_torchrun()

    def num_processes(self, requested: int | None, _batches_per_update: int) -> int:
        """Return the number of processes that torchrun started."""
        if requested not in (None, self._group.world_size):
            started = f"the {self._group.world_size} processes that torchrun started"
            raise ValueError(f"--processes {requested} conflicts with {started}: leave out --processes")
        return self._group.world_size

    def num_local(self, processes: int) -> int:
        """Return the number of processes that torchrun started on this machine."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", processes))

    def run_on_first(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process, and return the result in all processes.

        If `work` raises an error that the user has to fix, such as a missing file or package, the first process
        raises the error, and the other processes exit.
        """
        outcome: tuple[bool, Any] = (False, None)
        if self.is_first:
            try:
                outcome = (True, work())
            except (ValueError, OSError, ModuleNotFoundError) as error:
                self._failure = error
        is_done, result = self._group.broadcast_from_first(outcome, self._preparing)
        if self._failure:
            raise self._failure
        if not is_done:
            raise SystemExit(USER_ERROR)
        value: T = result
        return value

    def train(self, request: TrainRequest, _processes: int, on_event: EventCallback) -> None:
        """Train together with the other processes that torchrun started."""
        from dragoman.experiment.train_model import train_model

        train_model(request.out, self._group, on_event, request.command, request.tensorboard)


def default_launcher(device: str = AUTO, timeout: float = parse_duration(TIMEOUT)) -> Launcher:
    """Return the launcher for a device: under torchrun, Torchrun; in the main thread, LocalProcesses; else Launcher.

    Only the main thread can handle signals and supervise processes.
    """
    if "RANK" in os.environ:
        return Torchrun(device, timeout)
    return LocalProcesses(device) if is_main_thread() else Launcher(device)


def is_lost_process(error: BaseException) -> bool:
    """Return True if an error means that another training process was lost."""
    return is_lost_peer(error)


def describe_loss(error: BaseException) -> str:
    """Return what is known about a lost process: another process was silent for the timeout, or has ended."""
    if found := re.search(r"[Tt]imed out waiting (?:for )?(\d+)ms", str(error)):
        seconds = format_duration(int(found[1]) / 1000)
        return f"a training process waited {seconds} for another (--timeout)"
    return "a training process was lost"


def send_report(address: str, report: Event | None) -> None:
    """Send a report from a worker to the launcher; exit if the launcher is gone."""
    try:
        with Client(address) as connection:
            connection.send(report)
    except OSError:
        os._exit(1)  # not by an exception: leaving the group would wait for the other workers


class _Supervisor:
    """Receives the reports of worker processes: events to forward, and errors that a restart does not fix."""

    def __init__(self, on_event: EventCallback) -> None:
        self.on_event = on_event
        self.error: Exception | None = None
        self.failure: tuple[str, str] = ("", "")
        self.lost_in = ""
        self.signal = 0
        """The last signal to stop; 0: none."""

    @contextmanager
    def receiving(self) -> Iterator[str]:
        """Handle reports in a background thread within the block; yield the address that workers report to."""
        with Listener(backlog=128) as listener:
            thread = threading.Thread(target=self._receive, args=(listener,), daemon=True)
            thread.start()
            try:
                yield str(listener.address)
            finally:
                send_report(str(listener.address), None)
                thread.join()

    def _receive(self, listener: Listener) -> None:
        while True:
            try:
                with listener.accept() as connection:
                    report = connection.recv()
            except (EOFError, OSError):  # killed while it was sending
                continue
            if report is None:
                return
            try:
                self.handle(report)
            except Exception as error:
                if self.error is None:
                    self.error = error
                    os.kill(os.getpid(), signal.SIGTERM)  # or else torch would start the workers again

    def handle(self, report: Event) -> None:
        """Forward an event; raise ValueError for an error that the user can fix, or for a failure in two attempts."""
        match report["event"]:
            case "started":
                if self.signal:  # the exception of its handler got lost in a library: no worker starts after a stop
                    os.kill(os.getpid(), self.signal)
            case "error":
                raise ValueError(report["message"])
            case "failure":
                attempt, failure = self.failure
                self.failure = (report["attempt"], report["message"])
                if failure == report["message"] and attempt != report["attempt"]:
                    raise ValueError(f"training failed twice with the same error ({failure}): see the traceback above")
            case "process lost":
                if self.error is None and self.lost_in != report["attempt"]:
                    self.on_event(report)
                self.lost_in = report["attempt"]
            case _:
                self.on_event(report)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables within the block, for the workers to inherit."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:  # torch adds some, too
        os.environ.clear()
        os.environ.update(before)
