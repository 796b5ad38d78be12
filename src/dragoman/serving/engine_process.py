"""An engine process: `python -m dragoman.serving.engine_process SOCKET CONFIG`, started by the HTTP process.

The process opens every model, reports them, and answers batches until the HTTP process ends. Modules that take long to
import are imported only after signals are ignored.
"""

import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from dragoman.serving.engine_protocol import MAX_BATCHES, TranslationOptions, encode_message, receive_message

if TYPE_CHECKING:
    from dragoman.serving.model_worker import ModelWorker

NICENESS: Final = 5
"""Niceness of engine processes: the HTTP process, which needs little time, has priority."""
WARMUP_TEXT: Final = "Where is the station, and how much is a ticket?"


def main() -> None:
    """Open all models, then answer batches until the HTTP process closes the socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the HTTP process, which closes the socket in time
        signal.signal(number, signal.SIG_IGN)
    from dragoman.io.processes import exit_with_parent
    from dragoman.serving.model_worker import ModelWorker

    exit_with_parent(os.getppid())
    os.nice(NICENESS)
    connection = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(sys.argv[2])
    try:
        models, settings = config["models"], (config["threads"], config["compute"], config["device"])
        workers = {name: ModelWorker(name, folder, *settings) for name, folder in models.items()}
    except (ValueError, OSError) as error:
        connection.sendall(encode_message({"failed": str(error)}))
        raise SystemExit(2) from None
    seconds_alone = max(map(_measure_alone, workers.values()))
    models = [worker.info.model_dump() for worker in workers.values()]
    warnings = [worker.warning for worker in workers.values() if worker.warning]
    vocabularies = {name: worker.source_vocabulary for name, worker in workers.items()}
    ready = {"models": models, "warnings": warnings, "seconds_alone": seconds_alone, "vocabularies": vocabularies}
    try:
        connection.sendall(encode_message(ready))
    except BrokenPipeError:  # the service was stopped while this process started
        raise SystemExit(0) from None
    _answer_batches(connection, workers)


def _measure_alone(worker: "ModelWorker") -> float:
    """Return the seconds that a single sentence takes, after a first translation as warm-up."""
    for _ in range(2):
        begin = time.perf_counter()
        to = next(iter(worker.info.targets), None)
        worker.translate([WARMUP_TEXT], TranslationOptions(worker.info.name, worker.info.sha256, to))
    return time.perf_counter() - begin


def _answer_batches(connection: socket.socket, workers: "dict[str, ModelWorker]") -> None:
    lock = Lock()

    def translate(message: dict[str, Any]) -> None:
        options = TranslationOptions(*message["options"])
        answers = workers[options.model].translate(message["texts"], options)
        with lock:
            connection.sendall(encode_message({"batch": message["batch"], "answers": answers}))

    with ThreadPoolExecutor(MAX_BATCHES) as executor, connection.makefile("rb") as stream:
        while message := receive_message(stream):
            executor.submit(translate, message).add_done_callback(_exit_on_error)


def _exit_on_error(future: Any) -> None:
    """Exit if a batch raised an unexpected error: the HTTP process then starts a new engine process."""
    if error := future.exception():
        print(f"engine process: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
