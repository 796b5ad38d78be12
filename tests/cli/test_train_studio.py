"""`dragoman train --studio`: a page beside the training, which the training neither waits for nor depends on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.slow

DRAGOMAN = str(Path(sys.executable).with_name("dragoman"))  # not a fork: its own process has children and is killed
UPDATES = "training.stop.updates=1000000"


@contextmanager
def training(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """A training without an end that shows itself; the address of its page, and the token."""
    changes = [UPDATES, "training.validate_every=1000000", "training.log_every=1"]
    options = [part for change in changes for part in ("--set", change)]
    command = [DRAGOMAN, "train", "r.yaml", "--out", "run", "--processes", "1", "--studio", *options]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "BROWSER": "true"}
    (folder / "random.py").write_text("raise SystemExit('taken for the random of Python')", encoding="utf-8")
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-1, text=True)
    try:
        assert process.stderr is not None
        lines = (re.search(r"(http://127\.0\.0\.1:\d+/)#token=(\S+)", line) for line in process.stderr)
        found = next(filter(None, lines))
        yield process, *found.groups()
    finally:
        process.kill()
        process.communicate()


def asked(address: str, token: str, path: str) -> Request:
    return Request(f"{address}api/{path}", headers={"authorization": f"Bearer {token}"})


def wait_for_end(address: str) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            urlopen(address, timeout=5).close()
        except (URLError, ConnectionError):
            return
        time.sleep(0.2)
    raise AssertionError("the studio is still there")


def test_the_page_shows_the_training_and_ends_with_it(folder: Path) -> None:
    with training(folder) as (process, address, token):
        with urlopen(asked(address, token, "studio"), timeout=30) as answer:
            info = json.load(answer)
        assert [run["name"] for run in info["runs"]] == ["run"]
        assert info["models"] == []
        with urlopen(asked(address, token, "runs/run/events"), timeout=30) as stream:
            page = json.loads(next(line for line in stream if line.startswith(b"data: ")).removeprefix(b"data: "))
            assert next(event["event"] for event in page["events"]) == "begin"
            state = json.loads(next(line for line in (next(stream) for _ in range(3)) if b"data:" in line)[6:])
        assert state["is_running"]
        assert state["findings"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert re.search(r"stopped at update [\d,]+; .* resumes", errors)
        wait_for_end(address)


def test_the_page_ends_with_a_training_that_is_killed(folder: Path) -> None:
    with training(folder) as (process, address, _):
        process.kill()
        wait_for_end(address)


def test_training_goes_on_without_its_page(folder: Path) -> None:
    with training(folder) as (process, address, _):
        listed = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True
        )
        (studio,) = [int(line.split()[0]) for line in listed.stdout.splitlines() if "run_beside" in line]
        os.kill(studio, signal.SIGKILL)
        wait_for_end(address)
        log = folder / "run" / "log.jsonl"
        before = len(log.read_text("utf-8"))
        time.sleep(2)
        assert process.poll() is None
        assert len(log.read_text("utf-8")) > before


def test_a_missing_extra_is_named_before_anything_is_prepared(folder: Path) -> None:
    arguments = ["dragoman", "train", "r.yaml", "--out", "run", "--studio"]
    blocked = f"import sys; sys.modules['uvicorn'] = None; sys.argv = {arguments!r}"
    code = f"{blocked}; from dragoman.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "dragoman[serve]" in done.stderr
    assert not (folder / "run").exists()
