"""What every fuzzer begins with goes through its parser: it is read, or refused, and nothing else."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).parent
sys.path.insert(0, str(PLACE))  # the fuzzer runs the same files as a script

from seeds import SEEDS  # noqa: E402
from targets import TARGETS  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_read_or_refused(name: str) -> None:
    assert len(SEEDS[name]) >= 10
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed here")
def test_a_mistake_in_a_parser_would_be_found() -> None:
    command = [sys.executable, str(PLACE / "run.py"), "--seconds", "20", "--only", "planted"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    values = json.loads(done.stdout.splitlines()[-1])["values"]
    assert (values["crashes"], values["crashed"], done.returncode) == (1, ["planted"], 1)
    assert "KeyError: 'planted'" in done.stderr
