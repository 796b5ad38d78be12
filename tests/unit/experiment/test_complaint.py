"""What processes that fail leave for their launcher."""

import os
import signal
from pathlib import Path

import pytest

from dragoman.experiment.complaint import complain, fails_again


def test_of_all_who_complain_the_first_is_heard_and_ends_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append((pid, number)))
    for of_what in ("three processes", "something else"):
        complain(of_what, tmp_path / "complaint")
    assert (tmp_path / "complaint").read_text("utf-8") == "three processes"
    assert ended == [(os.getppid(), signal.SIGTERM)]


def test_a_failure_is_the_same_again_only_in_another_attempt(tmp_path: Path) -> None:
    last = tmp_path / "failure"
    assert not fails_again("OSError: no space left", "0", last)
    assert not fails_again("OSError: no space left", "0", last)  # another process, in the same moment
    assert not fails_again("OSError: broken pipe", "1", last)
    assert fails_again("OSError: broken pipe", "2", last)
