"""Run the studio: open the models, listen on this machine alone, and serve until Ctrl-C."""

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from dragoman.device import AUTO
from dragoman.serving.http_server import open_socket
from dragoman.studio.studio_app import create_app
from dragoman.studio.tracing import StudioModel


def run_studio(folders: Mapping[str, Path], port: int, on_started: Callable[[str], None], device: str = AUTO) -> None:
    """Serve the studio on the loopback address; `on_started` gets the address to open, with the token."""
    models = {name: StudioModel(name, folder, device) for name, folder in folders.items()}
    token = secrets.token_urlsafe(24)
    with open_socket("127.0.0.1", port) as listener:
        address, port = listener.getsockname()[:2]
        if not ipaddress.ip_address(address).is_loopback:  # of a socket that systemd passes
            raise ValueError(f"the studio listens on this machine alone, not on {address}: pass it no socket")
        hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        config = uvicorn.Config(
            create_app(models, token, hosts),
            ws="none",
            proxy_headers=False,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        listener.listen()  # a browser that is fast waits for the server
        # The token stands in the fragment, which browsers send to no server and write to no log.
        on_started(f"http://127.0.0.1:{port}/#token={token}")
        uvicorn.Server(config).run(sockets=[listener])
