"""What any test may rely on: the same random numbers every time, and double precision on request."""

import sys
from collections.abc import Iterator

import pytest


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
