"""One engine process: `python -m dragoman.serving.engine_process SOCKET ORDERS`, started by the HTTP process.

It opens every model, says so, and answers batches until the HTTP process is gone. Two batches are in work at a time:
while CTranslate2 has the one, the other is read and cut into subwords.
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

from dragoman.serving.piece import Wish
from dragoman.serving.wire import packed, receive

if TYPE_CHECKING:
    from dragoman.serving.spoken import Spoken

DEPTH: Final = 2
"""Batches that an engine process has at a time."""
NICENESS: Final = 5
"""Whoever speaks HTTP comes first: it needs little, and everybody waits for it."""


FIRST: Final = "Where is the station, and how much is a ticket?"


def main() -> None:
    """Live as long as the other end of the socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the service: it lets us finish, and closes the socket
        signal.signal(number, signal.SIG_IGN)
    from dragoman.data.workers import end_with

    end_with(os.getppid())
    os.nice(NICENESS)
    connection = socket.socket(fileno=int(sys.argv[1]))
    orders = json.loads(sys.argv[2])
    try:
        models = _opened(orders)
    except (ValueError, OSError) as error:
        connection.sendall(packed({"failed": str(error)}))
        raise SystemExit(2) from None
    alone = max(_seconds_alone(model) for model in models.values())
    connection.sendall(packed({"ready": [model.facts.model_dump() for model in models.values()], "alone": alone}))
    _serve(connection, models)


def _opened(orders: dict[str, Any]) -> dict[str, "Spoken"]:
    from dragoman.bundle import open_bundle
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
    from dragoman.decoding.engines import open_engine
    from dragoman.decoding.options import SearchOptions
    from dragoman.serving.spoken import Spoken

    opened, compute = {}, orders["compute"]
    for name, folder in orders["models"].items():
        bundle = open_bundle(folder)
        options = SearchOptions.model_validate(bundle.info.search)
        engine = open_engine(bundle, options, "ctranslate2", orders["threads"], compute).engine
        assert isinstance(engine, CTranslate2Engine)
        opened[name] = Spoken(name, bundle, engine, compute)
    return opened


def _seconds_alone(model: "Spoken") -> float:
    """What a sentence takes with nobody else there; a first one, which takes longest, has gone before it."""
    for _ in range(2):
        begin = time.perf_counter()
        model.answers([FIRST], Wish(model.facts.name, model.facts.sha256))
    return time.perf_counter() - begin


def _serve(connection: socket.socket, models: dict[str, "Spoken"]) -> None:
    lock = Lock()

    def work(message: dict[str, Any]) -> None:
        wish = Wish(*message["wish"])
        answers = models[wish.model].answers(message["texts"], wish)
        with lock:
            connection.sendall(packed({"batch": message["batch"], "answers": answers}))

    with ThreadPoolExecutor(DEPTH) as pool:
        while message := receive(connection):
            pool.submit(work, message).add_done_callback(_end_if_broken)


def _end_if_broken(done: Any) -> None:
    """What is no sentence's fault: better a new process than one that answers nothing."""
    if error := done.exception():
        print(f"engine process: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
