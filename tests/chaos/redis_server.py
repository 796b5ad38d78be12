"""A Redis server of Debian on a free port, for tests."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None and not os.environ.get("CI"), reason="redis-server is missing"
)


class RedisServer:
    """A server that keeps nothing on disk, and can be stopped and started again at the same address."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", tempfile.gettempdir()]
        self._process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError("redis-server did not start")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Yield a running server."""
    server = RedisServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
