"""`torchrun -m dragoman train`: the same run as by our own launcher, and its processes report once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

pytestmark = pytest.mark.slow

PATIENCE_S = 300.0
PLACE = Path(sys.executable).parent
TORCHRUN = [
    *(str(PLACE / "torchrun"), "--nnodes", "1", "--nproc-per-node", "2", "--max-restarts", "3"),
    *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "dragoman", "train", "r.yaml", "--out", "run"),
]
CHANGES = ("stop.updates=1000000", "validate_every=1000000", "checkpoints.every=10", "log_every=1")
LONG = [part for change in CHANGES for part in ("--set", f"training.{change}")]


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_it_makes_the_same_model_says_so_once_and_given_again_has_nothing_to_do(folder: Path) -> None:
    done = run(TORCHRUN, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the model is in run/bundle") == 1
    ours = run([str(DRAGOMAN), "train", "r.yaml", "--out", "other", "--processes", "2"], folder)
    assert ours.returncode == 0, ours.stderr
    models = [(folder / name / "bundle" / "model.safetensors").read_bytes() for name in ("run", "other")]
    assert models[0] == models[1]
    again = run(TORCHRUN, folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("finished already: the model is in run/bundle")
    assert again.stdout.count("finished already") == 1
    refused = run([*TORCHRUN, "--set", "seed=9"], folder)
    assert refused.returncode != 0
    assert refused.stderr.count("error: run holds a finished model with another recipe:") == 1


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers(launcher: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in listed.split()]


def count(folder: Path, event: str) -> int:
    log = folder / "run" / "log.jsonl"
    return log.read_text("utf-8").count(f'"event": "{event}"') if log.exists() else 0


def has_update_after_resuming(folder: Path) -> bool:
    _, resumed, after = (folder / "run" / "log.jsonl").read_text("utf-8").partition('"event": "resumed"')
    return bool(resumed) and '"event": "update"' in after


def test_a_lost_process_is_one_line_and_the_end_names_the_update_to_resume_from(folder: Path) -> None:
    with (folder / "errors").open("w") as errors:
        training = subprocess.Popen([*TORCHRUN, *LONG], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            until(lambda: count(folder, "saved") > 0)
            os.kill(workers(training.pid)[1], signal.SIGKILL)
            until(lambda: has_update_after_resuming(folder))  # before that, a process may not handle signals yet
            training.terminate()
            training.wait(PATIENCE_S)
        finally:
            training.kill()
    lines = (folder / "errors").read_text("utf-8").splitlines()
    assert sum("a training process was lost" in line for line in lines) == 1
    (end,) = [line for line in lines if line.startswith("stopped at update ")]
    newest = max(int(path.name.removeprefix("update-")) for path in (folder / "run" / "checkpoints").glob("update-*"))
    assert end.endswith(f" update {newest:,}")
    assert not any("dragoman" in line and line.lstrip().startswith("File ") for line in lines)  # no traceback of ours


def test_the_workers_end_when_torchrun_is_killed(folder: Path) -> None:
    training = subprocess.Popen([*TORCHRUN, *LONG], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: count(folder, "update") > 0)
        processes = workers(training.pid)
        assert len(processes) == 2
    finally:
        training.kill()
        training.wait(PATIENCE_S)
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))


def test_it_makes_the_same_checks_as_without_torchrun(folder: Path) -> None:
    for options, expected in (
        (["--set", "data.train.0.source=absent.en"], "absent.en"),
        (["--set", "model.d_model=65536"], "GB are free"),
        (["--set", "training.batches_per_update=3"], "2 processes cannot share 3 batches evenly"),
        (["--processes", "3"], "--processes 3 conflicts with the 2 processes that torchrun started"),
    ):
        refused = run([*TORCHRUN, *options], folder)
        assert_ended_at_once(refused, expected)
        assert not (folder / "run" / "prepared").exists()


def assert_ended_at_once(refused: subprocess.CompletedProcess[str], expected: str) -> None:
    """torchrun has been ended: it reports its end by a signal, and no failure of a process, which it would restart."""
    assert refused.returncode != 0
    assert refused.stderr.count("error: ") == 1, refused.stderr
    assert expected in refused.stderr
    assert "SignalException" in refused.stderr
    assert "failed (exitcode: 2)" not in refused.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--device", "cuda"], "device cuda is not available"),
        (["--timeout", "soon"], "soon"),
        (["--colour", "red"], "--colour"),
        (["--processes", "many"], "--processes"),
        (["--out", "https://example.com/run"], "is not a local folder"),
    ],
)
def test_an_error_before_the_processes_have_met_ends_torchrun_at_once(
    folder: Path, options: list[str], expected: str
) -> None:
    assert_ended_at_once(run([*TORCHRUN, *options], folder), expected)


def test_a_recipe_that_cannot_be_read_ends_torchrun_at_once(folder: Path) -> None:
    (folder / "r.yaml").unlink()
    (folder / "r.yaml").mkdir()
    assert_ended_at_once(run(TORCHRUN, folder), "r.yaml is a folder")
