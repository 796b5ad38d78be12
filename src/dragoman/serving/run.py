"""Run the service: start the engines, listen, reload models, glossaries and keys on SIGHUP, and stop on SIGTERM."""

import asyncio
import gc
import json
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOBase
from typing import Any, Final

from dragoman.serving.app import create_app
from dragoman.serving.config import LogEvent, ServiceConfig
from dragoman.serving.http_server import open_socket, serve
from dragoman.serving.keys import read_keys
from dragoman.serving.log_writer import LogWriter
from dragoman.serving.service import Service, read_glossaries

STANDARD_ERROR: Final = 2
"""The descriptor of the log."""
SPARE_DESCRIPTORS: Final = 256
"""File descriptors for all but connections: files, engines, and connections that are closed at once."""
LEAST_SPARE: Final = 24
"""The fewest descriptors to spare, without those of the engines."""
REPEAT_SECONDS: Final = 10.0
"""Seconds for which the same error of the event loop is not logged again."""
FLUSH_SECONDS: Final = 1.0
"""Seconds at the end for the reader of the log to take the last lines."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

OnStarted = Callable[[str, int, Service], None]
"""A callback that gets the host, the port and the service once the service listens."""


class JsonLog:
    """The log of the service: one JSON object per line. Fields that are None are omitted.

    With `is_quiet`, only warnings and errors are written.
    """

    def __init__(self, stream: TextIOBase | LogWriter | None = None, is_quiet: bool = False) -> None:
        self._stream, self._is_quiet = stream, is_quiet

    def __call__(self, event: str, *, level: str = "info", **fields: Any) -> None:
        if self._is_quiet and level == "info":
            return
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "event": event}
        line |= {name: value for name, value in fields.items() if value is not None}
        stream = self._stream or sys.stderr
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        stream.flush()


class LoopErrors:
    """The handler of errors that reach only the event loop: logs each kind once per `REPEAT_SECONDS`.

    If descriptors run out, asyncio reports the same error thousands of times per second, with tracebacks.
    """

    def __init__(self, log: LogEvent, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._logged_at: dict[str, float] = {}

    def __call__(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        kind, now = f"{context['message']} ({type(context.get('exception')).__name__})", self._clock()
        if now - self._logged_at.get(kind, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._logged_at[kind] = now
            self._log("event loop", level="error", reason=kind)


def run_service(config: ServiceConfig, on_started: OnStarted, is_quiet: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; raise ValueError or OSError if the service cannot start.

    With `is_quiet`, only warnings and errors are logged.
    """
    config.check()
    with open_socket(config.host, config.port) as listener:
        replace(config, host=listener.getsockname()[0]).check()  # a passed socket may listen at another address
        descriptors = _allow_connections(config.limits.connections)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the models are open
        try:
            asyncio.run(_run(config, listener, on_started, is_quiet, descriptors))
        except asyncio.CancelledError:
            raise SystemExit(128 + signal.SIGTERM) from None


def _allow_connections(number: int) -> int:
    """Raise this process's limit of open files if necessary, since each connection needs a file descriptor.

    Return the number of descriptors, up to those needed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = number + SPARE_DESCRIPTORS
    limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


async def _run(
    config: ServiceConfig, listener: socket.socket, on_started: OnStarted, is_quiet: bool, descriptors: int
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # until `serve` sets another
    writer = LogWriter(STANDARD_ERROR)
    service = Service.create(config, JsonLog(writer, is_quiet))
    service.metrics.watch_log(lambda: writer.num_dropped)
    pool, log, (host, port, *_) = service.dispatcher.pool, service.log, listener.getsockname()
    max_open = descriptors - min(SPARE_DESCRIPTORS, LEAST_SPARE + 8 * config.num_engines)
    if max_open < config.limits.connections:
        max_open, fix = max(1, max_open), f"raise ulimit -n to {config.limits.connections + SPARE_DESCRIPTORS}"
        log("few file descriptors", level="warning", limit=descriptors, connections=max_open, reason=fix)
    asyncio.get_running_loop().set_exception_handler(LoopErrors(log))
    if service.quotas:
        await service.quotas.connect()
        service.metrics.watch_quotas(service.quotas)
    await pool.start()  # before the first request: a model that cannot be opened is reported at once

    def hashes() -> dict[str, str]:
        return {model.name: model.sha256 for model in service.models.values()}

    def report_started() -> None:
        log("started", host=host, port=port, models=hashes())
        on_started(host, port, service)

    async def reload() -> None:
        try:
            keys = read_keys(config.keys_file) if config.keys_file else None
            if keys is not None:  # first: a revoked key must not wait for the models, or for a mistake in a glossary
                service.keys.replace(keys)
                log("keys reloaded", keys=len(keys))
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
    await serve(app, listener, config.limits, drain, lambda: pool.create_task(reload()), report_started, max_open)
    await pool.close()
    if service.quotas:
        await service.quotas.close()
    if service.tracing:
        service.tracing.close()
    log("stopped")
    writer.flush(FLUSH_SECONDS)
