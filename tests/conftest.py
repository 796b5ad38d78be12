"""Fixtures of all tests: the same random numbers every time, and double precision on request."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "forks"))
from fork_server import fork_server

settings.register_profile("unhurried", deadline=None)  # a case's duration depends more on the machine than on the code
settings.load_profile("unhurried")

SLOW = [Path(__file__).parent / folder for folder in ("bench", "chaos", "cli", "distributed", "properties", "scripts")]
"""Folders whose tests start processes or try very many inputs: too slow to run at every change."""


LONG = ("bench", "chaos", "device", "distributed", "cli/test_finetune.py", "cli/test_torchrun.py", "cli/test_train.py")
"""Where tests take up to minutes. They run first, so that no process ends with one of them while the other has none."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in slow folders, and begin with the longest."""
    long = [Path(__file__).parent / name for name in LONG]
    items.sort(key=lambda item: not any(path in (item.path, *item.path.parents) for path in long))
    for item in items:
        if any(folder in item.path.parents for folder in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed torch, so that a test does not depend on the tests before it. A test without torch stays without it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(2017)


@pytest.fixture(scope="session")
def forks() -> Iterator[None]:
    """Let the commands of tests/forks start in milliseconds."""
    with fork_server() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def float64() -> Iterator[None]:
    """Create tensors and models in double precision, so that comparisons differ only by rounding."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def exact_int8() -> None:
    """Skip a test on an x86 CPU without VNNI: sums of its int8 products saturate at 16 bits."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    if "avx2" in flags and not flags & {"avx512_vnni", "avx_vnni", "amx_int8"}:
        pytest.skip("this CPU has no VNNI: its int8 products are less exact")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of corpora in $DRAGOMAN_DATA, or else shared/data beside the project."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (folder / "multi30k").is_dir():
        pytest.skip(f"no corpora in {folder}: set DRAGOMAN_DATA")
    return folder
