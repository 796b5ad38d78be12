"""The log is written in the background: whatever its reader does, the service never waits for it."""

import json
import os
import time
from pathlib import Path

import pytest

from dragoman.serving.log_writer import LogWriter

PATIENCE_S = 60.0


def read_lines(descriptor: int, number: int) -> list[str]:
    text = b""
    while text.count(b"\n") < number:
        text += os.read(descriptor, 1 << 16)
    return text.decode().splitlines()


def test_lines_come_whole_and_in_order(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno())
        for number in range(500):
            writer.write(f"line {number} ü \ud800\n")
        writer.flush(PATIENCE_S)
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert lines == [f"line {number} ü \\ud800" for number in range(500)]
    assert writer.num_dropped == 0


def test_lines_of_one_moment_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = os.write

    def count(descriptor: int, content: memoryview) -> int:
        sizes.append(len(content))
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", count)
    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno())
        for line in ["short"] * 200 + ["x" * 9000]:
            writer.write(f"{line}\n")
        writer.flush(PATIENCE_S)
    assert sum(sizes) == 200 * 6 + 9001
    assert len(sizes) < 100
    assert [size for size in sizes if size > 4096] == [9001]  # mixed with others it could not be written at once


def test_a_stalled_reader_costs_lines_and_no_time() -> None:
    ours, theirs = os.pipe()
    writer = LogWriter(theirs, max_lines=100)
    begin = time.monotonic()
    for number in range(300):
        writer.write(f"{number} {'x' * 4096}\n")  # far more than a pipe holds
    writer.flush(0.05)
    assert time.monotonic() - begin < 30  # a write to the pipe would wait for ever
    assert writer.num_dropped >= 100
    dropped, lines = writer.num_dropped, read_lines(ours, 300 - writer.num_dropped + 1)
    reports = [json.loads(line) for line in lines if line.startswith("{")]
    assert reports == [{"level": "warning", "event": "log lines dropped", "lines": dropped}]
    for descriptor in (ours, theirs):
        os.close(descriptor)


def test_a_full_device_and_a_reader_that_has_left_cost_lines_only() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    ours, theirs = os.pipe()
    os.close(ours)
    for descriptor in (full, theirs):
        writer = LogWriter(descriptor)
        writer.write("a\n")
        writer.write("b\n")
        writer.flush(PATIENCE_S)
        assert writer.num_dropped == 2
        os.close(descriptor)
