"""A browser, and a studio that runs in a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for runs.py
sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))  # for browser.py
from browser import browser as browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address that `dragoman studio` prints, with its token."""
    command = [sys.executable, "-m", "dragoman", "studio", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) in (0, -signal.SIGINT, 130)
