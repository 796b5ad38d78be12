"""Begun with so many processes and continued with others: the same batches in the same updates, the same losses."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fork_server import PYTHON

pytestmark = pytest.mark.usefixtures("forks")

SCRIPT = Path(__file__).with_name("continued.py")
SECONDS = 300
BATCHES_PER_UPDATE = 4


def run(
    folder: Path,
    processes: int,
    updates: int,
    parallel: str = "ddp",
    lost_in: int = 0,
    batches_per_update: int = BATCHES_PER_UPDATE,
) -> dict[int, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    plain = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    started = []
    for rank in range(processes):
        among = {"RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = plain | {"OMP_NUM_THREADS": "1"} | (among if processes > 1 else {})
        options = (str(updates), parallel, str(batches_per_update), str(lost_in))
        command = [PYTHON, str(SCRIPT), str(folder), *options]
        started.append(subprocess.Popen(command, env=env, stdout=-1, stderr=-1, text=True))
    try:
        said = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    if lost_in:
        first, second = (process.returncode for process in started)
        assert (first, second) == (1, -signal.SIGKILL), said
        assert "Connection closed by peer" in said[0][1] or "gloo" in said[0][1]
        return {}
    assert not any(process.returncode for process in started), said
    return {int(update): loss for update, loss in json.loads(said[0][0]).items()}


@pytest.fixture(scope="module")
def straight(forks: None, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    return run(tmp_path_factory.mktemp("straight"), 1, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then", "parallel"), [(2, 1, "ddp"), (1, 2, "ddp"), (2, 1, "fsdp"), (1, 2, "fsdp")])
def test_another_number_of_processes_goes_on_where_the_first_stopped(
    straight: dict[int, float], tmp_path: Path, first: int, then: int, parallel: str
) -> None:
    begun = run(tmp_path, first, 10, parallel)
    continued = run(tmp_path, then, 20, parallel)
    assert list(begun) == list(range(1, 11))
    assert list(continued) == list(range(11, 21))
    assert begun | continued == pytest.approx(straight, rel=1e-3)
    assert continued[20] != pytest.approx(straight[19], rel=1e-3)  # the losses of other batches would be seen


@pytest.fixture(scope="module")
def alone(forks: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run(folder, 1, 16)
    return folder


def trained_on(folder: Path) -> list[int]:
    """Return the indices of the batches that all processes together have trained on, in order."""
    return sorted(int(word) for file in folder.glob("batches-*") for word in file.read_text().split())


def assert_same_weights(folder: Path, alone: Path) -> None:
    weights, expected = (torch.load(each / "weights.pt") for each in (folder, alone))
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_two_processes_then_four_then_one_train_on_the_same_batches_to_the_same_weights(
    alone: Path, tmp_path: Path
) -> None:
    """As when hosts join or leave: each batch once, in its update."""
    losses: dict[int, float] = {}
    for processes, updates in ((2, 7), (4, 12), (1, 16)):
        losses |= run(tmp_path, processes, updates)
    assert list(losses) == list(range(1, 17))
    assert len(list(tmp_path.glob("batches-*"))) == 4
    assert trained_on(tmp_path) == list(range(16 * BATCHES_PER_UPDATE))
    assert_same_weights(tmp_path, alone)


@pytest.mark.slow
def test_the_script_for_more_processes_compares_them_with_one() -> None:
    command = [sys.executable, str(SCRIPT.with_name("many.py")), "--processes", "2", "--updates", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])["values"]
    assert values == pytest.approx({"ddp_2": 0.0, "fsdp_2": 0.0}, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 4])
def test_after_the_loss_of_one_of_two_others_go_on_with_the_same_batches(
    alone: Path, tmp_path: Path, processes: int
) -> None:
    run(tmp_path, 2, 16, lost_in=13)
    losses = run(tmp_path, processes, 16)
    assert list(losses) == list(range(11, 17))  # from the checkpoint on, which was saved in update 10
    assert len(list(tmp_path.glob("batches-*"))) == processes
    assert trained_on(tmp_path) == list(range(10 * BATCHES_PER_UPDATE, 16 * BATCHES_PER_UPDATE))
    assert_same_weights(tmp_path, alone)
