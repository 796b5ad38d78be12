"""Checkpoints of several processes: each hashes its own files, and all know which checkpoint is intact."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fork_server import PYTHON

SCRIPT = Path(__file__).with_name("checkpoints.py")


def run(folder: Path, world_size: int) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    among = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [PYTHON, str(SCRIPT), str(folder)],
            env=os.environ | among | {"RANK": str(rank)},
            stdout=-1,
            text=True,
        )
        for rank in range(world_size)
    ]
    try:
        return [json.loads(process.communicate(timeout=150)[0].splitlines()[-1]) for process in started]
    finally:
        for process in started:
            process.kill()


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_each_process_hashes_its_own_files_and_all_use_the_same_checkpoint(tmp_path: Path) -> None:
    first, second = run(tmp_path, 2)
    assert set(first["saved"]) == {".metadata", "__0_0.distcp"}
    assert set(second["saved"]) == {"__1_0.distcp"}
    assert len(first["verified"]) + len(second["verified"]) == 6  # the three files of each checkpoint, by one of both
    for process in (first, second):
        assert process["results"] == [None, None]
        assert process["update"] == 3
        assert process["same"]
        assert [error.startswith("__1_0.distcp: ") for error in process["errors"]] == [True]
    assert (tmp_path / "damaged-update-000000007").is_dir()
