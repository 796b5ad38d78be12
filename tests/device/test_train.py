"""`dragoman train --device standin`: two processes on two devices to a bundle, killed on the way and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.bundle import open_bundle

pytestmark = pytest.mark.slow

SECONDS = 240
KILLS = 5
SETTINGS = [
    "training.stop.updates=60",  # 12 checkpoints: time for five kills, also if a kill comes late
    "training.schedule.warmup=5",
    "training.validate_every=30",
    "training.checkpoints.every=5",
    "validation.max_pairs=20",
    "training.log_every=5",
]


def train(folder: Path, out: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "dragoman", "train", "dates/recipe.yaml", "--out", out]
    command += ["--device", "standin", "--processes", "2"]
    for setting in SETTINGS:
        command += ["--set", setting]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, start_new_session=True, **pipes)


def events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    command = [sys.executable, "-P", "-m", "dragoman", "example", "dates", str(tmp_path / "dates")]
    subprocess.run(command, check=True, capture_output=True)
    for name, count in (("train", 1000), ("dev", 20), ("test", 10)):  # of many more
        for side in ("en", "iso"):
            path = tmp_path / "dates" / f"{name}.{side}"
            path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:count]))
    return tmp_path


def checkpoints(run: Path) -> list[Path]:
    return sorted(run.glob("checkpoints/update-*/manifest.json"))


def wait_for_checkpoint(run: Path, before: list[Path], running: subprocess.Popen[str]) -> None:
    """Wait until a training has saved a newer checkpoint than these."""
    end = time.monotonic() + SECONDS
    while checkpoints(run)[-1:] == before:
        assert running.poll() is None, "the training has ended"
        assert time.monotonic() < end, "no progress"
        time.sleep(0.02)


def kill_all(launcher: subprocess.Popen[str]) -> None:
    """Kill a launcher and its training processes, which have sessions of their own, and wait for their end."""
    found = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True, check=False).stdout
    for pid in (launcher.pid, *map(int, found.split())):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    launcher.communicate()  # until the training processes, too, have closed its output


def test_two_devices_train_a_bundle_and_a_run_killed_five_times_ends_bitwise_the_same(
    folder: Path, with_standin: dict[str, str]
) -> None:
    straight = train(folder, "straight", with_standin)
    output, _ = straight.communicate(timeout=SECONDS)
    assert straight.returncode == 0, output
    begin, *_ = events(folder / "straight")
    assert (begin["device"], begin["processes"]) == ("standin (a stand-in for tests)", 2)
    bundle = open_bundle(folder / "straight")
    assert "on 2 x standin (a stand-in for tests), with float32 products" in bundle.card.notes[1]

    for _ in range(KILLS):
        before = checkpoints(folder / "killed")[-1:]
        killed = train(folder, "killed", with_standin)
        try:
            wait_for_checkpoint(folder / "killed", before, killed)
        finally:
            kill_all(killed)
    newest = checkpoints(folder / "killed")[-1]
    manifest = json.loads(newest.read_text(encoding="utf-8"))
    assert "standin (a stand-in for tests)" in json.dumps(manifest)
    resumed = train(folder, "killed", with_standin)
    output, _ = resumed.communicate(timeout=SECONDS)
    assert resumed.returncode == 0, output
    assert len([event for event in events(folder / "killed") if event["event"] == "resumed"]) == KILLS
    ours, theirs = (open_bundle(folder / name).weights() for name in ("straight", "killed"))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_more_processes_than_devices_is_one_line(folder: Path, with_standin: dict[str, str]) -> None:
    started = train(folder, "many", with_standin | {"STANDIN_DEVICES": "1"})
    output, _ = started.communicate(timeout=SECONDS)
    assert started.returncode == 2
    assert "2 processes for 1 standin device: give --processes 1 or fewer" in output
