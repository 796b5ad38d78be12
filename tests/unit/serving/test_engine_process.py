"""The fork server and an engine process, driven directly over their sockets."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.api_schemas import ModelInfo
from dragoman.bundle import open_bundle
from dragoman.serving.config import ServiceConfig
from dragoman.serving.engine_process import NICENESS
from dragoman.serving.engine_protocol import TranslationOptions, encode_message, receive_message

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-P", "-m", "dragoman.serving.engine_process")
PATIENCE_S = 300
DOGS = ["two red dogs."]


class EngineProcess:
    """A fork server, an engine process of it once it is forked, and our ends of their sockets."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control
        self.reports = control.makefile("rb")

    def fork(self) -> None:
        assert receive_message(self.reports) == {"ready": True}
        self.connection, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [b"+"], [theirs.fileno()])
            message = receive_message(self.reports)
        assert message is not None
        self.pid = message["pid"]
        self.connection.settimeout(PATIENCE_S)
        self.stream = self.connection.makefile("rb")

    def receive(self) -> dict[str, Any] | None:
        return receive_message(self.stream)

    def send(self, batch: int, options: TranslationOptions, texts: list[str]) -> None:
        self.connection.sendall(encode_message({"batch": batch, "options": options, "texts": texts}))

    def wait(self) -> tuple[int, str]:
        """Return the exit code of the engine process, and what both wrote to standard error."""
        message = receive_message(self.reports)
        assert message is not None
        assert message["ended"] == self.pid
        self.control.shutdown(socket.SHUT_WR)
        code, stderr = self.wait_for_server()
        assert code == 0
        return message["code"], stderr

    def wait_for_server(self) -> tuple[int, str]:
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stderr.decode()


@contextlib.contextmanager
def start(config: ServiceConfig, forks: bool = True, log: int = subprocess.PIPE) -> Iterator[EngineProcess]:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            number = theirs.fileno()
            arguments = [*COMMAND, str(number), config.engine_argument()]
            process = subprocess.Popen(arguments, pass_fds=(number,), stderr=log)
        with process:
            engine = EngineProcess(process, ours)
            try:
                if forks:
                    engine.fork()
                yield engine
            finally:
                process.kill()
                engine.reports.close()
                if forks:
                    engine.stream.close()
                    engine.connection.close()


def test_a_service_that_stops_while_it_starts_is_no_error(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny}), forks=False) as engine:
        engine.reports.close()
        engine.control.close()
        assert engine.wait_for_server() == (0, "")
    with start(ServiceConfig({"a": tiny})) as engine:
        engine.stream.close()
        engine.connection.close()
        assert engine.wait() == (0, "")


def test_it_reports_its_models_answers_and_ends_with_the_socket(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny, "b": tiny})) as engine:
        message = engine.receive()
        assert message is not None
        models = [ModelInfo.model_validate(model) for model in message["models"]]
        sha256 = open_bundle(tiny).model_sha256
        assert [(model.name, model.sha256, model.source, model.aligns) for model in models] == [
            ("a", sha256, "en", True),
            ("b", sha256, "en", True),
        ]
        assert message["seconds_alone"] > 0
        engine.send(7, TranslationOptions("b", sha256), [*DOGS, "ten old houses."])
        message = engine.receive()
        assert message is not None
        assert message["batch"] == 7
        texts = [answer["hypotheses"][0]["text"] for answer in message["answers"]]
        assert texts == ["zwei rote Hunde.", "zehn alte Häuser."]
        engine.connection.shutdown(socket.SHUT_WR)
        assert engine.receive() is None
        assert engine.wait() == (0, "")


def test_it_has_no_torch_and_a_lower_priority_than_the_http_process(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny})) as engine:
        assert engine.receive() is not None
        maps = Path(f"/proc/{engine.pid}/maps").read_text()
        assert "ctranslate2" in maps
        assert "libtorch" not in maps
        niceness = os.getpriority(os.PRIO_PROCESS, engine.pid)
        assert niceness == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def test_a_model_that_cannot_be_opened_is_reported(tiny: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(tiny, tmp_path / "damaged"))
    with (damaged / "config.json").open("ab") as file:
        file.write(b" ")
    for folder, named in ((tmp_path / "nowhere", "nowhere"), (damaged, "config.json: ")):
        with start(ServiceConfig({"good": tiny, "bad": folder}), forks=False) as engine:
            message = receive_message(engine.reports)
            assert message is not None
            assert named in message["failed"]
            assert engine.wait_for_server() == (2, "")


def test_signals_for_the_service_do_not_end_it(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny})) as engine:
        assert engine.receive() is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            engine.process.send_signal(number)
            os.kill(engine.pid, number)
        engine.send(1, TranslationOptions("a", ""), DOGS)
        message = engine.receive()
        assert message is not None
        assert message["answers"][0]["hypotheses"][0]["text"] == "zwei rote Hunde."


def test_an_error_that_is_no_sentences_fault_ends_it(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny})) as engine:
        assert engine.receive() is not None
        engine.send(1, TranslationOptions("unknown", ""), DOGS)
        assert engine.receive() is None
        code, stderr = engine.wait()
        assert code == 1
        assert stderr.startswith("engine process: KeyError: ")


@pytest.mark.parametrize("sink", ["full", "stalled"])
def test_it_ends_after_an_error_though_nobody_takes_its_last_words(tiny: Path, sink: str) -> None:
    """Or the requests of its batch would wait until the service gives it up."""
    if sink == "full":
        descriptors = [os.open("/dev/full", os.O_WRONLY)]
    else:
        descriptors = list(os.pipe())
        os.set_blocking(descriptors[1], False)
        with contextlib.suppress(BlockingIOError):
            while os.write(descriptors[1], b"x" * 4096):
                pass
        os.set_blocking(descriptors[1], True)
    with start(ServiceConfig({"a": tiny}), log=descriptors[-1]) as engine:
        assert engine.receive() is not None
        engine.send(1, TranslationOptions("unknown", ""), DOGS)
        engine.connection.settimeout(60)
        assert engine.receive() is None
        message = receive_message(engine.reports)
        assert message == {"ended": engine.pid, "code": 1}
    for descriptor in descriptors:
        os.close(descriptor)


def test_it_outlives_its_fork_server_and_ends_with_the_socket_even_in_the_middle_of_a_batch(tiny: Path) -> None:
    with start(ServiceConfig({"a": tiny})) as engine:
        assert engine.receive() is not None
        engine.process.kill()
        engine.process.wait()
        engine.send(1, TranslationOptions("a", ""), DOGS)
        assert engine.receive() is not None
        long = "ten old houses and three red tables and four green dogs " * 12
        engine.send(2, TranslationOptions("a", "", beam_size=10, num_best=10), [long] * 20)
        engine.connection.shutdown(socket.SHUT_WR)
        assert engine.receive() is None  # before the batch is done
