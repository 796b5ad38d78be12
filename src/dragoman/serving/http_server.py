"""The HTTP server: uvicorn with timeouts for slow clients, and with draining after SIGTERM.

`TimeoutProtocol` uses attributes of uvicorn's protocol that are not documented; pyproject.toml pins uvicorn's minor
version for that reason, and tests/unit/serving/test_http_server.py fails on any other.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.serving.config import Limits

FIRST_PASSED_SOCKET = 3
"""File descriptor of a socket that systemd, or another parent process, passes to this process."""
HEAD_BYTES = 1 << 16
"""Size limit of the request line and the headers; httptools has none."""
MAX_BACKLOG = 2048
MAX_PIPELINED = 8
"""Pipelined requests per connection: each takes far more memory than its bytes."""
LINGER_SECONDS = 2.0
"""Seconds for a client that is still sending to read the error response."""


class LingeringTransport:
    """A transport that calls `linger` before closing, and stays open for reading if `linger` returns True."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], bool]) -> None:
        self._transport, self._linger = transport, linger
        self._is_closed = False
        self.write = transport.write

    def close(self) -> None:
        if self._is_closed or not self._linger():
            self._transport.close()
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class TimeoutProtocol(HttpToolsProtocol):
    """The HTTP protocol with timeouts for receiving headers and body, and for sending the response.

    A connection that exceeds a timeout or a size limit is closed. A client that is rejected while it is still sending
    gets `LINGER_SECONDS` to read the response.
    """

    limits = Limits()
    max_open = sys.maxsize
    """Connections for which there are file descriptors; further ones are closed at once."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(LingeringTransport(transport, self._linger))  # type: ignore[arg-type]
        self._is_lingering = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._expect(HEAD_BYTES, self.limits.header_seconds)
        if len(self.connections) > self.max_open:
            self.transport.abort()

    def _expect(self, max_bytes: int, seconds: float) -> None:
        """Limit the next request: abort the connection after `max_bytes` bytes or `seconds` seconds."""
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._set_deadline(seconds)

    def data_received(self, data: bytes) -> None:
        self._num_bytes += len(data)
        if self._is_lingering:
            if self._num_bytes > self._max_bytes:
                self.transport.pause_reading()
            return
        super().data_received(data)
        if self._num_bytes > self._max_bytes:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._expect(HEAD_BYTES, self.limits.header_seconds)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError(f"more than {MAX_PIPELINED} pipelined requests")  # ends the parsing and the connection
        self._num_head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def _count_head(self, num_bytes: int) -> None:
        """Limit the headers that arrive in one piece with a body, which may be larger."""
        self._num_head_bytes += num_bytes
        if self._num_head_bytes > HEAD_BYTES:
            raise ValueError(f"more than {HEAD_BYTES} bytes of headers")  # ends the parsing and the connection

    def on_headers_complete(self) -> None:
        self._max_bytes = HEAD_BYTES + 2 * self.limits.body_bytes  # chunks have headers too, and a trailer may follow
        self._set_deadline(self.limits.body_seconds)
        # For the middleware to reject: uvicorn's own response has neither our format nor Retry-After.
        self.scope["crowded"] = len(self.connections) > self.limits.connections  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._set_deadline(None)
        super().on_message_complete()
        self._expect_next()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_next()

    def _expect_next(self) -> None:
        """Set the deadline of an idle connection.

        uvicorn's keep-alive timeout misses clients that send empty lines, and clients that do not read the response.
        """
        if self._deadline is None and self.cycle.response_complete:
            self._set_deadline(self.limits.idle_seconds + self.limits.header_seconds)

    def _linger(self) -> bool:
        """Close only the sending side and return True if the client is still sending; otherwise return False.

        If the connection were closed at once, the client's next write would fail, and most clients then drop the
        response.
        """
        if self.cycle is None or not self.cycle.more_body:
            return False
        self._is_lingering = True
        self._set_deadline(LINGER_SECONDS)
        self.transport.write_eof()
        self.flow.resume_reading()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _set_deadline(self, seconds: float | None) -> None:
        """Set the deadline of the connection in seconds from now; None removes the deadline.

        A timer that fires earlier is kept and checks the deadline when it fires: nearly all requests are done by then,
        so a new timer for each of them would be wasted.
        """
        self._deadline = None if seconds is None else self.loop.time() + seconds
        if self._deadline is not None and (self._timer is None or self._timer.when() > self._deadline):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() >= self._deadline:
            if self.cycle is not None:
                self.cycle.scope["timed_out"] = True  # type: ignore[typeddict-unknown-key]
            self.transport.abort()
        else:
            self._timer = self.loop.call_at(self._deadline, self._on_timer)


class Server(uvicorn.Server):
    """A uvicorn server without uvicorn's signal handlers, which the handlers of `serve` replace."""

    on_started: Callable[[], None]
    is_draining = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_started()


def open_socket(host: str, port: int) -> socket.socket:
    """Return the socket that systemd passed to this process, or bind a new socket; OSError if the port is in use."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and int(os.environ.get("LISTEN_FDS", "0")) > 0:
        return socket.socket(fileno=FIRST_PASSED_SOCKET)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio would not see that it is TCP and leave Nagle's delay on: 40 ms per answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    limits: Limits,
    on_drain: Callable[[], None],
    on_reload: Callable[[], None],
    on_started: Callable[[], None],
    max_open: int = sys.maxsize,
) -> None:
    """Serve until SIGINT, or until `drain_seconds` after SIGTERM; SIGHUP reloads the models.

    More than `max_open` connections are closed at once.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=type("TimeoutProtocol", (TimeoutProtocol,), {"limits": limits, "max_open": max_open}),
        backlog=min(MAX_BACKLOG, max_open),  # asyncio accepts as many at once, before any can be closed
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_level="critical",
        server_header=False,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        lifespan="on",
    )
    server, loop = Server(config), asyncio.get_running_loop()
    server.on_started = on_started

    def stop(seconds: float) -> None:
        if not server.is_draining:  # a second signal does not drain again, but Ctrl-C after SIGTERM ends the wait
            server.is_draining = True
            on_drain()
        loop.call_later(seconds, setattr, server, "should_exit", True)

    loop.add_signal_handler(signal.SIGTERM, stop, limits.drain_seconds)
    loop.add_signal_handler(signal.SIGINT, stop, 0.0)
    loop.add_signal_handler(signal.SIGHUP, on_reload)
    await server.serve(sockets=[listener])
