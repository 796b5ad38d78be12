"""The stand-in accelerator, built once, and the processes that have it: here it would be `auto` for all tests."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "standin"))
from build_standin import BuildError, build

SECONDS = 240


@pytest.fixture(scope="session")
def standin() -> Path:
    """The folder that makes torch find the stand-in, if it is in Python's path."""
    try:
        return build()
    except BuildError as error:
        pytest.skip(f"the stand-in accelerator cannot be built: {error}")


@pytest.fixture(scope="session")
def with_standin(standin: Path) -> dict[str, str]:
    """The environment of a process in which torch has the stand-in."""
    hidden = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    path = os.pathsep.join([str(standin), *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def launch(with_standin: dict[str, str]) -> Callable[..., list[subprocess.Popen[str]]]:
    """A function that starts a script of this folder in one process, or in several that find each other."""

    def start(script: str, *arguments: str, processes: int = 1, local: int = 1) -> list[subprocess.Popen[str]]:
        command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return [subprocess.Popen(command, env=with_standin | rank, **pipes) for rank in _ranks(processes, local)]

    return start


@pytest.fixture(scope="session")
def finish() -> Callable[..., list[dict[str, Any]]]:
    """A function that returns what each process printed as its last line, in JSON."""
    return _finish


def _finish(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def _ranks(count: int, local: int) -> list[dict[str, str]]:
    """The environment of each of so many processes, with `local` on each pretend machine; they share the devices."""
    if count == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(count)}
    own = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return [shared | one | {"LOCAL_WORLD_SIZE": str(local)} for one in own]
