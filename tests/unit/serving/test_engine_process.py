"""The process that translates, spoken to by hand."""

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

from dragoman.bundle import open_bundle
from dragoman.serving.engine import Orders
from dragoman.serving.engine_process import NICENESS
from dragoman.serving.facts import Facts
from dragoman.serving.piece import Wish
from dragoman.serving.wire import packed, receive

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-P", "-m", "dragoman.serving.engine_process")
PATIENCE_S = 300


class Started:
    """A process and our end of its socket."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self.connection = connection

    def hear(self) -> dict[str, Any] | None:
        return receive(self.connection)

    def ask(self, **message: Any) -> None:
        self.connection.sendall(packed(message))

    def end(self) -> tuple[int, str]:
        """How it ended, and what it said."""
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said.decode()


@contextlib.contextmanager
def started(orders: Orders, *before: str) -> Iterator[Started]:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            number = theirs.fileno()
            command = [*(before or COMMAND), str(number), orders.text()]
            process = subprocess.Popen(command, pass_fds=(number,), stderr=subprocess.PIPE)
        with process:
            try:
                yield Started(process, ours)
            finally:
                process.kill()


def test_it_says_what_it_has_answers_and_ends_with_the_socket(tiny: Path) -> None:
    with started(Orders({"a": tiny, "b": tiny})) as engine:
        ready = engine.hear()
        assert ready is not None
        facts = [Facts.model_validate(one) for one in ready["ready"]]
        sha256 = open_bundle(tiny).sha256
        assert [(one.name, one.sha256, one.source, one.aligns) for one in facts] == [
            ("a", sha256, "en", True),
            ("b", sha256, "en", True),
        ]
        engine.ask(batch=7, wish=Wish("b", sha256), texts=["two red dogs.", "ten old houses."])
        answer = engine.hear()
        assert answer is not None
        assert answer["batch"] == 7
        texts = [one["hypotheses"][0][0] for one in answer["answers"]]
        assert texts == ["zwei rote Hunde.", "zehn alte Häuser."]
        engine.connection.shutdown(socket.SHUT_WR)
        assert engine.hear() is None
        assert engine.end() == (0, "")


def test_it_has_no_torch_and_gives_way_to_whoever_speaks_http(tiny: Path) -> None:
    with started(Orders({"a": tiny})) as engine:
        assert engine.hear() is not None
        maps = Path(f"/proc/{engine.process.pid}/maps").read_text()
        assert "ctranslate2" in maps
        assert "libtorch" not in maps
        niceness = os.getpriority(os.PRIO_PROCESS, engine.process.pid)
        assert niceness == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def test_a_model_that_cannot_be_opened_is_said(tiny: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(tiny, tmp_path / "damaged"))
    with (damaged / "config.json").open("ab") as file:
        file.write(b" ")
    for folder, why in ((tmp_path / "nowhere", "there is no such folder"), (damaged, "config.json: ")):
        with started(Orders({"good": tiny, "bad": folder})) as engine:
            said = engine.hear()
            assert said is not None
            assert why in said["failed"]
            assert engine.end() == (2, "")


def test_signals_that_are_meant_for_the_service_do_not_end_it(tiny: Path) -> None:
    with started(Orders({"a": tiny})) as engine:
        assert engine.hear() is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            engine.process.send_signal(number)
        engine.ask(batch=1, wish=Wish("a", ""), texts=["two red dogs."])
        answer = engine.hear()
        assert answer is not None
        assert answer["answers"][0]["hypotheses"][0][0] == "zwei rote Hunde."


def test_what_is_no_sentences_fault_ends_it_so_that_another_can_begin(tiny: Path) -> None:
    with started(Orders({"a": tiny})) as engine:
        assert engine.hear() is not None
        engine.ask(batch=1, wish=Wish("unknown", ""), texts=["two red dogs."])
        assert engine.hear() is None
        code, said = engine.end()
        assert code == 1
        assert said.startswith("engine process: KeyError: ")


def test_it_ends_with_whoever_started_it(tiny: Path) -> None:
    """Another process between us and the engine: when that one is killed, our end of the socket is still open."""
    between = f"import subprocess, sys; subprocess.run([*{COMMAND!r}, *sys.argv[1:]], close_fds=False)"
    with started(Orders({"a": tiny}), sys.executable, "-c", between) as engine:
        assert engine.hear() is not None
        engine.process.kill()
        assert engine.hear() is None
