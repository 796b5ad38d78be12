"""Every tensor of a training step is on the device: shown with fake tensors, without a compiler or an accelerator."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("fake_device.py"))]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_model_built_for_a_device_is_all_there(found: dict[str, Any]) -> None:
    assert found["buffers"] == ["pretend:0"]


def test_a_step_mixes_no_devices_and_waits_for_none(found: dict[str, Any]) -> None:
    assert found["step"] is None


def test_every_mutant_is_refused(found: dict[str, Any]) -> None:
    assert len(found["mutants"]) >= 5
    waits = found["mutants"].pop("loss_that_waits")
    assert waits.startswith("DataDependentOutputException")
    for name, error in found["mutants"].items():
        assert error, name
        assert error.startswith("FakeTensorDeviceMismatchError"), name
