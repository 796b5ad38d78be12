"""Begun with so many processes and continued with others: the same batches in the same updates, the same losses."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("continued.py")
SECONDS = 150


def run(folder: Path, processes: int, updates: int, parallel: str = "ddp", *more: str) -> dict[int, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    plain = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    started = []
    for rank in range(processes):
        among = {"RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = plain | {"OMP_NUM_THREADS": "1"} | (among if processes > 1 else {})
        command = [sys.executable, str(SCRIPT), str(folder), str(updates), parallel, *more]
        started.append(subprocess.Popen(command, env=env, stdout=-1, stderr=-1, text=True))
    try:
        said = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    assert not any(process.returncode for process in started), said
    return {int(update): loss for update, loss in json.loads(said[0][0]).items()}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
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
