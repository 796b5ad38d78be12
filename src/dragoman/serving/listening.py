"""HTTP by uvicorn, with what it lacks: slow clients are cut off, and a stop drains first."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.serving.limits import Limits

FIRST_PASSED_SOCKET = 3
"""Where a socket stands that was passed at start, by systemd or by whoever keeps it open over a change of guard."""

HEAD_BYTES = 1 << 16
"""Of a request before its body. What reads HTTP has no limit of its own."""
PIPELINED = 8
"""Requests that may wait on one connection for the answer to the first. Each takes far more memory than its bytes."""
LEAVE_SECONDS = 2.0
"""For a client that is still sending to read that it was refused, and to stop."""


class Courteous:
    """A transport that `leave` may close in its own way: it says whether it does."""

    def __init__(self, transport: asyncio.Transport, leave: Callable[[], bool]) -> None:
        self._transport, self._leave = transport, leave
        self._left = False
        self.write = transport.write

    def close(self) -> None:
        if self._left or not self._leave():
            self._transport.close()
        self._left = True

    def is_closing(self) -> bool:
        return self._left or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Impatient(HttpToolsProtocol):
    """A request's head and body must come in within their time and size, and its answer must be taken away in time, or
    the connection is closed. Who is refused while still sending is given a moment to read why.
    """

    limits = Limits()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Courteous(transport, self._leave))  # type: ignore[arg-type]
        self._leaving = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._most, self._come = HEAD_BYTES, 0
        self._give(self.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        self._come += len(data)
        if self._leaving:
            if self._come > self._most:
                self.transport.pause_reading()
            return
        super().data_received(data)
        if self._come > self._most:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._most, self._come = HEAD_BYTES, 0
        self._give(self.limits.header_seconds)
        if len(self.pipeline) >= PIPELINED:
            raise ValueError("too many requests at once")  # which ends the parsing, and the connection
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._most = HEAD_BYTES + 2 * self.limits.body_bytes  # chunks have heads of their own, and a foot may follow
        self._give(self.limits.body_seconds)
        # For the guard to refuse: what uvicorn itself would say has neither our words nor a time to come again.
        self.scope["crowded"] = len(self.connections) > self.limits.connections  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._give(None)
        super().on_message_complete()
        self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._rest()

    def _rest(self) -> None:
        """Nothing is under way: uvicorn closes in a while, unless the client does not read, or sends empty lines."""
        if self._deadline is None and self.cycle.response_complete:
            self._give(self.limits.idle_seconds + self.limits.header_seconds)

    def _leave(self) -> bool:
        """Say goodbye and go on reading for a while, if the request is not over. Were the connection closed at once,
        what the client sends next would find it broken, and most clients then forget the answer they were given.
        """
        if self.cycle is None or not self.cycle.more_body:
            return False
        self._leaving = True
        self._give(LEAVE_SECONDS)
        self.transport.write_eof()
        self.flow.resume_reading()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give(None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _give(self, seconds: float | None) -> None:
        """From now on; None takes the deadline away. A timer that would ring too early is left as it is, and looks
        again: of thousands of requests a second, nearly all are done before it does.
        """
        self._deadline = None if seconds is None else self.loop.time() + seconds
        if self._deadline is not None and (self._timer is None or self._timer.when() > self._deadline):
            self._ring_at(self._deadline)

    def _ring_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() >= self._deadline:
            self.transport.abort()
        else:
            self._ring_at(self._deadline)


class Server(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """The socket that was passed to us, or a new one; OSError, if the address is taken."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and int(os.environ.get("LISTEN_FDS", "0")) > 0:
        return socket.socket(fileno=FIRST_PASSED_SOCKET)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio would not know it for TCP and leave Nagle's delay on: 40 ms for every answer.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made


async def serve(
    app: ASGIApp,
    where: socket.socket,
    limits: Limits,
    drain: Callable[[], None],
    reload: Callable[[], Awaitable[None]],
    started: Callable[[], None],
) -> None:
    """Until SIGTERM or SIGINT. At the first, `drain` is told, and a while later nobody is let in; SIGHUP reloads."""
    protocol = type("Impatient", (Impatient,), {"limits": limits})
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=protocol,
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_level="critical",
        server_header=False,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        backlog=2048,
        lifespan="on",
    )
    server = Server(config)
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Future[None]] = set()

    stopping = False

    async def stop(seconds: float) -> None:
        nonlocal stopping
        if not stopping:  # who insists is not told again, but a Ctrl-C after a SIGTERM ends the wait
            stopping = True
            drain()
        await asyncio.sleep(seconds)
        server.should_exit = True

    def begin(work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGTERM, lambda: begin(stop(limits.drain_seconds)))
    loop.add_signal_handler(signal.SIGINT, lambda: begin(stop(0.0)))
    loop.add_signal_handler(signal.SIGHUP, lambda: begin(reload()))
    begin(_when_started(server, started))
    await server.serve(sockets=[where])
    for task in tasks:
        task.cancel()


async def _when_started(server: uvicorn.Server, started: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    started()
