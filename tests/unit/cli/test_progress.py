import re
import sys

import pytest

from dragoman.cli import progress
from dragoman.cli.progress import show_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_piped_progress_is_a_line_for_each_phase_and_one_every_few_seconds(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with show_progress() as report:
        report("read", 0)
        clock[0] += 5.0
        report("read", 10)
        clock[0] += 15.0
        report("read", 2_000, 6_000, "lines")
        report("clean", 0, 5)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["read", "read: 2,000 of 6,000, 100 lines/s, 40 s left", "clean"]
    assert not shown.out


def test_a_terminal_shows_each_phase_live(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress() as report:
        report("read", 7)
        report("learn", 0)
        report("clean", 0, 5, "pairs")
        clock[0] += 2.0
        report("clean", 3, 5, "pairs")
    shown = capsys.readouterr()
    read, learn, clean = (re.findall(rf"{phase} +\x1b.*", shown.err)[-1] for phase in ("read", "learn", "clean"))
    assert " 7 " in read
    assert "/s" not in read, "a rate over no time says nothing"
    assert not re.search(r"\b0 |0 of 0", learn), "a phase that counts nothing has no count"
    assert "3 of 5" in clean
    assert "2 pairs/s" in clean


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(quiet=True) as report:
        report("read", 7)
    assert capsys.readouterr() == ("", "")
