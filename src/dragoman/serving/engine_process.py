"""The fork server, and the engine processes that it forks: `python -m dragoman.serving.engine_process SOCKET CONFIG`.

The HTTP process starts the fork server, which reads every model once. For each socket that it receives, it forks an
engine process, which answers batches over that socket until the HTTP process closes it. So an engine starts within a
fraction of a second, and its models are those that were read, whatever the folders contain by then.

The fork server has a single thread, since threads would not survive a fork: it never opens models of CTranslate2.
Modules that take long to import are imported only after signals are ignored.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dragoman.serving.engine_protocol import MAX_BATCHES, TranslationOptions, encode_message, receive_message

if TYPE_CHECKING:
    from dragoman.serving.model_worker import LoadedModel, ModelWorker

NICENESS: Final = 5
"""Niceness of engine processes: the HTTP process, which needs little time, has priority."""
STANDARD_ERROR: Final = 2
"""The descriptor of standard error."""
LAST_WORDS_SECONDS: Final = 1.0
"""Seconds to write the reason for which an engine process ends."""
WARMUP_TEXT: Final = "Where is the station, and how much is a ticket?"


def main() -> None:
    """Read all models, then fork an engine process for each socket until the HTTP process closes the connection."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the HTTP process, which closes the socket in time
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(sys.argv[2])
    from dragoman.serving.model_worker import LoadedModel

    try:
        models = [LoadedModel.read(name, folder, config["compute"]) for name, folder in config["models"].items()]
    except (ValueError, OSError) as error:
        control.sendall(encode_message({"failed": str(error)}))
        raise SystemExit(2) from None
    gc.collect()
    gc.freeze()  # so that engine processes share the memory of all that is read by now
    try:
        control.sendall(encode_message({"ready": True}))
        _fork_engines(control, models, (config["threads"], config["compute"], config["device"]))
    except ConnectionError:  # the service was stopped while this process started
        raise SystemExit(0) from None


def _fork_engines(control: socket.socket, models: "list[LoadedModel]", settings: tuple[int, Any, str]) -> None:
    def reap(*_: object) -> None:
        """Report the exit codes of engine processes that have ended."""
        while (ended := _wait_for_any()) is not None:
            control.sendall(encode_message({"ended": ended[0], "code": ended[1]}))

    signal.signal(signal.SIGCHLD, reap)
    while True:
        _, numbers, *_ = socket.recv_fds(control, 1, 1)
        if not numbers:
            return
        connection = socket.socket(fileno=numbers[0])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # its end must not be reported before its id
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            _run_engine(connection, models, settings)
        connection.close()
        control.sendall(encode_message({"pid": pid}))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _wait_for_any() -> tuple[int, int] | None:
    """Return the id and the exit code of an ended child process; None if there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def _run_engine(connection: socket.socket, models: "list[LoadedModel]", settings: tuple[int, Any, str]) -> NoReturn:
    """Open the models, report them, and answer batches until the HTTP process closes the socket."""
    from dragoman.serving.model_worker import ModelWorker

    try:
        os.nice(NICENESS)
        try:
            workers = {model.name: ModelWorker(model, *settings) for model in models}
        except (ValueError, OSError) as error:
            connection.sendall(encode_message({"failed": str(error)}))
            os._exit(2)
        seconds_alone = max(map(_measure_alone, workers.values()))
        infos = [worker.info.model_dump() for worker in workers.values()]
        warnings = [worker.warning for worker in workers.values() if worker.warning]
        vocabularies = {name: worker.source_vocabulary for name, worker in workers.items()}
        ready = {"models": infos, "warnings": warnings, "seconds_alone": seconds_alone, "vocabularies": vocabularies}
        connection.sendall(encode_message(ready))
        _answer_batches(connection, workers)
    except ConnectionError:  # the service was stopped
        os._exit(0)
    except BaseException as error:
        _exit_with_error(error)


def _measure_alone(worker: "ModelWorker") -> float:
    """Return the seconds that a single sentence takes, after a first translation as warm-up."""
    for _ in range(2):
        begin = time.perf_counter()
        to = next(iter(worker.info.targets), None)
        worker.translate([WARMUP_TEXT], TranslationOptions(worker.info.name, worker.info.sha256, to))
    return time.perf_counter() - begin


def _answer_batches(connection: socket.socket, workers: "dict[str, ModelWorker]") -> NoReturn:
    lock = Lock()

    def translate(message: dict[str, Any]) -> None:
        options = TranslationOptions(*message["options"])
        answers = workers[options.model].translate(message["texts"], options)
        with lock:
            connection.sendall(encode_message({"batch": message["batch"], "answers": answers}))

    def exit_on_error(future: Any) -> None:
        if error := future.exception():
            _exit_with_error(error)

    executor, stream = ThreadPoolExecutor(MAX_BATCHES), connection.makefile("rb")
    while message := receive_message(stream):
        executor.submit(translate, message).add_done_callback(exit_on_error)
    os._exit(0)  # without waiting: nobody is left to read the answer to a batch


def _exit_with_error(error: BaseException) -> NoReturn:
    """Exit after an unexpected error: the HTTP process then starts a new engine process."""
    if isinstance(error, ConnectionError):
        os._exit(0)
    line = f"engine process: {type(error).__name__}: {error}\n"
    writer = Thread(target=lambda: os.write(STANDARD_ERROR, line.encode(errors="backslashreplace")), daemon=True)
    writer.start()  # a full disk is an error for it, and a stalled reader would keep it for ever
    writer.join(LAST_WORDS_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
