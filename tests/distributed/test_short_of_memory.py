"""Memory that runs out while gradients are exchanged: the processes start again with smaller microbatches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("short_of_memory.py")


def run(folder: Path, room: int) -> subprocess.CompletedProcess[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "4"]
    command = [sys.executable, *launch, "--monitor-interval", "0.2", str(SCRIPT), str(folder), str(room)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
def test_the_processes_start_again_with_more_microbatches_until_they_fit(tmp_path: Path) -> None:
    done = run(tmp_path, room=2)  # 7 rows, in four microbatches of at most 2
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4"]
    assert not (tmp_path / ".microbatches").exists()
