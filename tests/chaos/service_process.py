"""A service for one test: `dragoman serve` on a free port, with its process, its engines and its log at hand.

    with start_service("demo", "--engines", "1") as service:
        httpx.get(service.url + "/health")

It is stopped when the block ends. `broken` is Python that every process of the service runs before all else: what
takes a protection away, to see that its absence is noticed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

QUICKLY: Final = ("--limit", "drain_seconds=0.2")
"""There is no load balancer here. Of a repeated limit, the last counts."""


class StartError(RuntimeError):
    """The service did not start; the message is its standard error."""


class ServiceProcess:
    """A service, as long as its block lasts."""

    def __init__(self, command: list[str], environment: dict[str, str], passed: tuple[int, ...] = ()) -> None:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, pass_fds=passed, **pipes)
        self.pid = self.process.pid
        self.url = ""
        """Without a slash at its end."""
        self.lines: list[str] = []
        """All that it has written to standard error."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events that it has logged."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def engines(self) -> list[int]:
        """Return the ids of the living engine processes, which are children of the service's fork server."""
        parents = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z" and b"engine_process" in (entry / "cmdline").read_bytes():
                    parents[int(entry.name)] = int(fields[1])
        return sorted(pid for pid, parent in parents.items() if parents.get(parent) == self.pid)

    def resident(self) -> int:
        """Return the bytes of memory of the HTTP process."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def wait_for_event(self, event: str, times: int = 1, seconds: float = 180.0) -> dict[str, Any]:
        """Wait until it has logged an event so many times, and return the last of them."""
        found = wait_until(lambda: [one for one in self.log if one["event"] == event][times - 1 :], seconds)
        if not found:
            raise TimeoutError(f"{event} was not logged {times} times within {seconds:g} s:\n{self._last_lines()}")
        last: dict[str, Any] = found[0]
        return last

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, seconds: float = 60.0) -> int:
        """Stop it and return its exit code."""
        if self.process.poll() is None:
            self.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(seconds)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def wait_until_started(self, seconds: float) -> None:
        assert self.process.stdout is not None
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        self.url = self.process.stdout.readline().decode().strip().rstrip("/")
        timer.cancel()
        if not self.url:
            self.process.wait()
            self._reader.join(seconds)
            raise StartError(self._last_lines())

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def _last_lines(self) -> str:
        return "\n".join(self.lines[-50:])


@contextlib.contextmanager
def start_service(*arguments: str, broken: str = "", seconds: float = 120.0) -> Iterator[ServiceProcess]:
    """`dragoman serve` with these arguments, once it answers. StartError, if it does not come up."""
    with tempfile.TemporaryDirectory() as place:
        environment = dict(os.environ)
        if broken:
            (Path(place) / "sitecustomize.py").write_text(broken, encoding="utf-8")
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [place, environment.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", *QUICKLY, *arguments]
        running = ServiceProcess(command, environment)
        try:
            running.wait_until_started(seconds)
            yield running
        finally:
            running.stop()


def wait_until(held: Callable[[], Any], seconds: float) -> Any:
    """What it gives as soon as that is true, or when the time is up."""
    end = time.monotonic() + seconds
    while not (found := held()) and time.monotonic() < end:
        time.sleep(0.02)
    return found
