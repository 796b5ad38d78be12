"""Fixtures of the service tests: two tiny models that run without torch, and a service with the built-in one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for service_harness.py
sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))  # for browser.py
sys.path.insert(0, str(Path(__file__).parents[2] / "chaos"))  # for service_process.py
from browser import browser as browser
from service_harness import ServiceHarness, open_harness, write_model

from dragoman.bundle import demo_folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It knows a few dozen phrases, such as: two red dogs."""
    return write_model(tmp_path_factory.mktemp("tiny") / "model", "the one")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights under another hash."""
    return write_model(tmp_path_factory.mktemp("other") / "model", "the other")


@pytest.fixture(scope="session")
def demo() -> Iterator[ServiceHarness]:
    """One engine process with the built-in model."""
    with open_harness({"demo": demo_folder()}) as harness:
        yield harness


@pytest.fixture(scope="session")
def small(tiny: Path) -> Iterator[ServiceHarness]:
    """One engine process with the tiny model, which can align."""
    with open_harness({"tiny": tiny}) as harness:
        yield harness


@pytest.fixture
def idle() -> Iterator[ServiceHarness]:
    """A service whose engines were never started: enough for requests that are rejected before they reach one."""
    harness = ServiceHarness({})
    with harness.runner:
        yield harness
