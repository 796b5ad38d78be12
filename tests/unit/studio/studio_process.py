"""A studio in a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def open_studio(*models: str) -> Iterator[str]:
    """Yield the address that `dragoman studio` prints, with its token; Ctrl-C ends the process."""
    command = [sys.executable, "-m", "dragoman", "studio", *models, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) in (0, -signal.SIGINT, 130)
