"""A writer that never makes the service wait for the reader of its log."""

import json
import os
import threading
import time
from collections import deque
from typing import Final

MAX_LINES: Final = 10_000
"""Lines that wait for a reader who is slower than the service; further lines are dropped and counted."""
RETRY_SECONDS: Final = 0.1
"""Pause before another attempt to write to a descriptor that is full at the moment."""
GATHER_SECONDS: Final = 0.02
"""Pause before writing, so that the lines of that time are written at once: waking the thread for each of them would
delay requests."""
MAX_BYTES: Final = 4096
"""Bytes per write, unless a line is longer: a pipe takes so many at once, never mixed with those of another process."""


class LogWriter:
    """Writes lines to a file descriptor in a background thread; lines that cannot be written are dropped and counted.

    A pipe whose reader has stalled, a full disk or a closed terminal then cost log lines, but no requests.
    """

    def __init__(self, descriptor: int, max_lines: int = MAX_LINES) -> None:
        self.num_dropped = 0
        self._descriptor, self._max_lines = descriptor, max_lines
        self._lines: deque[bytes] = deque()
        self._num_reported = 0
        self._is_idle = threading.Event()
        self._has_lines = threading.Event()
        threading.Thread(target=self._write_lines, daemon=True, name="log").start()

    def write(self, line: str) -> None:
        """Queue a line."""
        if len(self._lines) >= self._max_lines:
            self.num_dropped += 1
            return
        self._is_idle.clear()
        self._lines.append(line.encode(errors="backslashreplace"))
        self._has_lines.set()

    def flush(self, seconds: float = 0.0) -> None:
        """Wait up to `seconds` seconds until all lines are written."""
        self._is_idle.wait(seconds)

    def _write_lines(self) -> None:
        while True:
            self._has_lines.wait()
            time.sleep(GATHER_SECONDS)
            self._has_lines.clear()
            while self._lines:
                self.num_dropped += self._write(self._next_lines())
                if self.num_dropped > self._num_reported and len(self._lines) < self._max_lines // 2:
                    self._report_dropped()
            if not self._lines:
                self._is_idle.set()

    def _next_lines(self) -> bytes:
        content = b""
        while self._lines and (not content or len(content) + len(self._lines[0]) <= MAX_BYTES):
            content += self._lines.popleft()
        return content

    def _report_dropped(self) -> None:
        num_dropped = self.num_dropped
        line = {"level": "warning", "event": "log lines dropped", "lines": num_dropped - self._num_reported}
        if not self._write(json.dumps(line).encode() + b"\n"):
            self._num_reported = num_dropped

    def _write(self, lines: bytes) -> int:
        """Write lines; return the number of those that could not be written completely."""
        content = memoryview(lines)
        while content:
            try:
                content = content[os.write(self._descriptor, content) :]
            except BlockingIOError:
                time.sleep(RETRY_SECONDS)
            except OSError:  # the disk is full, or the reader is gone
                return bytes(content).count(b"\n")
        return 0
