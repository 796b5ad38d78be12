"""Run the studio: open the models and runs, listen on this machine alone, and serve until Ctrl-C."""

import ipaddress
import os
import secrets
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from dragoman.device import AUTO
from dragoman.io.processes import exit_with_parent
from dragoman.serving.http_server import open_socket
from dragoman.studio.run_watch import WatchedRun, is_watchable
from dragoman.studio.studio_app import create_app
from dragoman.studio.tracing import StudioModel


def run_studio(folders: Mapping[str, Path], port: int, on_started: Callable[[str], None], device: str = AUTO) -> None:
    """Serve the studio on the loopback address; `on_started` gets the address to open, with the token.

    A folder is a model, a run, or both; a run that has no model yet can be watched.
    """
    runs = {name: WatchedRun(name, folder) for name, folder in folders.items() if is_watchable(folder)}
    models = {}
    for name, folder in folders.items():
        try:
            models[name] = StudioModel(name, folder, device)
        except ValueError:
            if name not in runs:
                raise
    token = secrets.token_urlsafe(24)
    with open_socket("127.0.0.1", port) as listener:
        address, port = listener.getsockname()[:2]
        if not ipaddress.ip_address(address).is_loopback:  # of a socket that systemd passes
            raise ValueError(f"the studio listens on this machine alone, not on {address}: pass it no socket")
        hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        config = uvicorn.Config(
            create_app(models, token, hosts, runs, lambda: server.should_exit),
            ws="none",
            proxy_headers=False,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        listener.listen()  # a browser that is fast waits for the server
        # The token stands in the fragment, which browsers send to no server and write to no log.
        on_started(f"http://127.0.0.1:{port}/#token={token}")
        server.run(sockets=[listener])


def run_beside(folder: Path, parent: int) -> None:
    """Show a run that trains in the process `parent`: print the address, and end when that process ends."""
    exit_with_parent(parent)
    if hasattr(os, "nice"):
        os.nice(10)  # training goes first

    def show(address: str) -> None:
        print(address, flush=True)
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    run_studio({folder.absolute().name: folder.absolute()}, 0, show)
