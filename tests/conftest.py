"""What any test may rely on: the same random numbers every time, and double precision on request."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # how long a case takes says more of the machine than of the code
settings.load_profile("unhurried")

SLOW = [Path(__file__).parent / room for room in ("chaos", "cli", "distributed", "properties")]
"""Rooms whose tests start processes, or try one thing in very many ways: too slow to be run at every change."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in a slow room."""
    for item in items:
        if any(room in item.path.parents for room in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test draws the same numbers, whichever tests ran before it. A test without torch stays without it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(2017)


@pytest.fixture
def float64() -> Iterator[None]:
    """Tensors and models are made in double precision, so that agreement leaves no room for anything but rounding."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
