"""A local S3 server (moto), for tests and scripts: an address, and the environment by which clients find it."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def s3_server(bucket: str) -> Iterator[dict[str, str]]:
    """Yield the environment variables of a server with an empty bucket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _create(f"{address}/{bucket}", server)
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        yield {**keys, "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true"}
    finally:
        server.kill()
        server.wait()


def _create(url: str, server: subprocess.Popen[bytes]) -> None:
    begin = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=5):
                return
        except OSError as error:
            if server.poll() is not None or time.monotonic() - begin > 60:
                raise RuntimeError("the S3 server did not start") from error
            time.sleep(0.2)
