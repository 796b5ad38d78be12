"""A service whose log nobody reads, whose keys change and whose descriptors are few (test S10)."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_process import QUICKLY, start_service

from dragoman.serving.keys import add_key

pytestmark = pytest.mark.slow

ONE = ("--engines", "1")
PATIENCE_S = 120.0


@contextlib.contextmanager
def serve_with_log(descriptor: int, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A service that logs to a descriptor, and its address."""
    command = [sys.executable, "-m", "dragoman", "serve", "demo", "--port", "0", *QUICKLY, *ONE, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=descriptor) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().decode().strip()
        finally:
            process.kill()


def translate(url: str, **request: Any) -> httpx.Response:
    form = {"q": "Where is the station?", "source": "en", "target": "de"}
    return httpx.post(f"{url}/translate", data=form, timeout=PATIENCE_S, **request)


@pytest.mark.parametrize("sink", ["full", "stalled", "closed"])
def test_a_log_that_nobody_takes_stops_neither_answers_nor_the_end(sink: str) -> None:
    if sink == "full":
        theirs = os.open("/dev/full", os.O_WRONLY)
    else:
        ours, theirs = os.pipe()
        if sink == "stalled":
            os.set_blocking(theirs, False)
            with contextlib.suppress(BlockingIOError):
                while os.write(theirs, b"x" * 4096):
                    pass
            os.set_blocking(theirs, True)
        else:
            os.close(ours)
    with serve_with_log(theirs) as (process, url):
        assert [translate(url.rstrip("/")).status_code for _ in range(3)] == [200] * 3
        assert httpx.get(f"{url}health/live", timeout=PATIENCE_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        assert process.wait(PATIENCE_S) == 0
        assert time.monotonic() - begin < 30  # 10 on a machine at rest


def test_a_revoked_key_is_refused_after_sighup(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    old, kept = add_key("old", file), add_key("kept", file)
    with start_service("demo", *ONE, "--keys", str(file)) as service:
        for key in (old, kept):
            assert translate(service.url, headers={"x-api-key": key}).status_code == 200
        entries = file.read_text(encoding="utf-8").split("- name: ")
        file.write_text(f"- name: {entries[2]}", encoding="utf-8")
        service.send_signal(signal.SIGHUP)
        service.wait_for_event("keys reloaded")
        assert translate(service.url, headers={"x-api-key": old}).status_code == 401
        assert translate(service.url, headers={"x-api-key": kept}).status_code == 200
        service.wait_for_event("reloaded")


def test_few_descriptors_are_reported_at_start_and_cost_few_lines_when_they_run_out() -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(start_service("demo", *ONE, broken=limited))
        assert service.wait_for_event("few file descriptors")["level"] == "warning"
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", service.port))) for _ in range(100)]
        time.sleep(3)
        assert len("\n".join(service.lines)) < 20_000
        for connection in idle:
            connection.close()
        assert translate(service.url).status_code == 200
