"""Requests to a run are neither lost nor counted twice."""

import os
import signal
import threading
from pathlib import Path

import pytest

from dragoman.training.signals import SignalRequests


def test_each_request_to_save_counts_once(tmp_path: Path) -> None:
    requests = SignalRequests(tmp_path / ".save")
    with requests.handle():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert requests.take_saves() == 2
        assert requests.take_saves() == 0
        assert not requests.end


def test_sigterm_requests_to_save_and_end(tmp_path: Path) -> None:
    requests = SignalRequests(tmp_path / ".save")
    with requests.handle():
        os.kill(os.getpid(), signal.SIGTERM)
    assert requests.end
    assert requests.take_saves() == 1


def test_the_first_ctrl_c_requests_to_save_and_end_and_the_second_ends_at_once(tmp_path: Path) -> None:
    interrupts: list[str] = []
    requests = SignalRequests(tmp_path / ".save", lambda: interrupts.append("first"))
    with requests.handle():
        os.kill(os.getpid(), signal.SIGINT)
        assert (requests.end, requests.is_interrupted, requests.take_saves()) == (True, True, 1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts == ["first"]


def test_a_worker_takes_the_same_ctrl_c_from_its_terminal_and_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    requests = SignalRequests(tmp_path / ".save")
    with requests.handle():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert requests.end


def test_the_file_is_a_request_and_is_removed(tmp_path: Path) -> None:
    requests = SignalRequests(tmp_path / ".save")
    requests.check_file()
    assert requests.take_saves() == 0
    (tmp_path / ".save").touch()
    requests.check_file()
    assert requests.take_saves() == 1
    assert not (tmp_path / ".save").exists()


def test_beside_the_main_thread_signals_are_left_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    handlers: list[object] = []

    def beside() -> None:
        with SignalRequests(tmp_path / ".save").handle():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert handlers == [before]
