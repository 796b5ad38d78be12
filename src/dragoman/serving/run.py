"""Run the service: start the engines, listen, reload the models on SIGHUP and stop on SIGTERM."""

import asyncio
import gc
import json
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOBase
from typing import Any, Final

from dragoman.serving.app import create_app
from dragoman.serving.config import ServiceConfig
from dragoman.serving.http_server import open_socket, serve
from dragoman.serving.service import Service, read_glossaries

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

OnStarted = Callable[[str, int, Service], None]
"""A callback that gets the host, the port and the service once the service listens."""


class JsonLog:
    """The log of the service: one JSON object per line. Fields that are None are omitted.

    With `is_quiet`, only warnings and errors are written.
    """

    def __init__(self, stream: TextIOBase | None = None, is_quiet: bool = False) -> None:
        self._stream, self._is_quiet = stream, is_quiet

    def __call__(self, event: str, *, level: str = "info", **fields: Any) -> None:
        if self._is_quiet and level == "info":
            return
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "event": event}
        line |= {name: value for name, value in fields.items() if value is not None}
        stream = self._stream or sys.stderr
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        stream.flush()


def run_service(config: ServiceConfig, on_started: OnStarted, is_quiet: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; raise ValueError or OSError if the service cannot start.

    With `is_quiet`, only warnings and errors are logged.
    """
    config.check()
    with open_socket(config.host, config.port) as listener:
        replace(config, host=listener.getsockname()[0]).check()  # a passed socket may listen at another address
        _allow_connections(config.limits.connections)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the models are open
        try:
            asyncio.run(_run(config, listener, on_started, is_quiet))
        except asyncio.CancelledError:
            raise SystemExit(128 + signal.SIGTERM) from None


def _allow_connections(number: int) -> None:
    """Raise this process's limit of open files if necessary, since each connection needs a file descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = number + 256
    limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


async def _run(config: ServiceConfig, listener: socket.socket, on_started: OnStarted, is_quiet: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # until `serve` sets another
    service = Service.create(config, JsonLog(is_quiet=is_quiet))
    pool, log, (host, port, *_) = service.dispatcher.pool, service.log, listener.getsockname()
    await pool.start()  # before the first request: a model that cannot be opened is reported at once

    def hashes() -> dict[str, str]:
        return {model.name: model.sha256 for model in service.models.values()}

    def report_started() -> None:
        log("started", host=host, port=port, models=hashes())
        on_started(host, port, service)

    async def reload() -> None:
        try:
            glossaries = read_glossaries(config.glossaries)
            await pool.reload()
            service.glossaries = glossaries
        except (ValueError, OSError) as error:
            service.metrics.reloads.labels("failed").inc()
            log("reload failed", level="error", reason=str(error))
        else:
            service.metrics.reloads.labels("done").inc()
            log("reloaded", models=hashes())

    def drain() -> None:
        service.is_draining = True
        log("stopping", seconds=config.limits.drain_seconds)

    app = create_app(service, config.origins, LOOPBACK_NAMES if config.keys is None else None)
    gc.collect()
    gc.freeze()  # these objects stay: to collect them all takes 40 ms, in which no request is answered
    await serve(app, listener, config.limits, drain, lambda: pool.create_task(reload()), report_started)
    await pool.close()
    log("stopped")
