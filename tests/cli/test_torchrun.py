"""`torchrun -m dragoman train`: the same run as by our own launcher, and its processes speak with one voice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
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
    ours = run([str(PLACE / "dragoman"), "train", "r.yaml", "--out", "other", "--processes", "2"], folder)
    assert ours.returncode == 0, ours.stderr
    models = [(folder / name / "bundle" / "model.safetensors").read_bytes() for name in ("run", "other")]
    assert models[0] == models[1]
    again = run(TORCHRUN, folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("finished already: the model is in run/bundle")
    assert again.stdout.count("finished already") == 1
    once = [word if word != "3" else "0" for word in TORCHRUN]  # torchrun tries again whatever it was
    refused = run([*once, "--set", "seed=9"], folder)
    assert refused.returncode != 0
    assert refused.stderr.count("error: run holds a finished model, of another recipe:") == 1


def until(held: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not held():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers(launcher: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in found.split()]


def test_a_lost_process_is_one_sentence_and_the_end_says_from_where_it_goes_on(folder: Path) -> None:
    def said(word: str) -> int:
        log = folder / "run" / "log.jsonl"
        return log.read_text("utf-8").count(f'"event": "{word}"') if log.exists() else 0

    with (folder / "errors").open("w") as errors:
        training = subprocess.Popen([*TORCHRUN, *LONG], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            until(lambda: said("saved") > 0)
            os.kill(workers(training.pid)[1], signal.SIGKILL)
            until(lambda: said("resumed") > 0 and said("update") > 0)
            training.terminate()
            training.wait(PATIENCE_S)
        finally:
            training.kill()
    lines = (folder / "errors").read_text("utf-8").splitlines()
    assert lines.count("a training process was lost; going on from the last checkpoint") == 1
    (end,) = [line for line in lines if line.startswith("stopped at update ")]
    newest = max(int(path.name.removeprefix("update-")) for path in (folder / "run" / "checkpoints").glob("update-*"))
    assert end.endswith(f"; the same command goes on from update {newest:,}")
    assert not any("dragoman" in line and line.lstrip().startswith("File ") for line in lines)  # no traceback of ours
