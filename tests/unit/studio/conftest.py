"""A browser, and a studio that runs in a process of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for runs.py, studio_process.py
sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))  # for browser.py
from browser import browser as browser
from studio_process import open_studio


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address that `dragoman studio` prints, with its token."""
    with open_studio() as address:
        yield address
