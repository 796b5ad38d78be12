"""HTTP over real sockets: slow clients are cut off, others are served, and signals drain, stop and reload."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from service_harness import PATIENCE_S
from starlette.types import Receive, Scope, Send

from dragoman.serving import http_server as module
from dragoman.serving.config import Limits
from dragoman.serving.http_server import open_socket, serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FAR = 60.0


class ServerUnderTest:
    """A server whose application returns the size of the body; /wait is answered when the test allows it."""

    def __init__(self, where: socket.socket) -> None:
        self.port = where.getsockname()[1]
        self.calls: list[str] = []
        self.may_answer = asyncio.Event()
        self.waiting = asyncio.Event()
        self.ready = asyncio.Event()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                self.calls.append(event)
                await send({"type": f"lifespan.{event}.complete"})
            return
        if scope["path"] == "/refuse":
            await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b"too much"})
            return
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.calls.append("too slow" if scope.get("timed_out") else "left")
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if scope["path"] == "/wait":
            self.waiting.set()
            await self.may_answer.wait()
        body = b"crowded" if scope["crowded"] else str(size).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def reload(self) -> None:
        self.calls.append("reload")

    async def opened(self, sent: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        return reader, writer

    async def request(self, sent: bytes = GET) -> bytes:
        """Return the body of a response on a new connection."""
        reader, writer = await self.opened(sent)
        found = await answer(reader)
        writer.close()
        return found


async def answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        assert b"server:" not in head.lower()
        return await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))


async def closed(reader: asyncio.StreamReader) -> bytes:
    """Return what still arrives before the connection is closed."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    except ConnectionError:
        return b""


@asynccontextmanager
async def run_server(max_open: int = 1000, **limits: Any) -> AsyncIterator[ServerUnderTest]:
    patient = {"header_seconds": FAR, "body_seconds": FAR, "idle_seconds": FAR, "seconds": FAR, "drain_seconds": 0.0}
    with open_socket("127.0.0.1", 0) as where:
        server = ServerUnderTest(where)
        task = asyncio.create_task(
            serve(
                server.app,
                where,
                Limits.model_validate(patient | limits),
                lambda: server.calls.append("drain"),
                server.reload,
                server.ready.set,
                max_open,
            )
        )
        try:
            await asyncio.wait_for(server.ready.wait(), PATIENCE_S)
            yield server
        finally:
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await task


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await work()

    asyncio.run(whole())


@pytest.mark.parametrize("sent", [b"", b"GET", GET[:-2], b"POST /translate HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_slow_headers_close_the_connection(sent: bytes) -> None:
    async def work() -> None:
        async with run_server(header_seconds=0.5) as server:
            slow = [await server.opened(sent) for _ in range(20)]
            assert await server.request() == b"0"
            for reader, writer in slow:
                assert await closed(reader) == b""
                writer.close()
            assert await server.request() == b"0"

    run(work)


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then while the connection is open."""
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", "header_seconds"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", "body_seconds"),
    ],
)
def test_dripping_bytes_does_not_extend_a_deadline(sent: bytes, limit: str) -> None:
    async def work() -> None:
        async with run_server(**{limit: 0.5}) as server:
            reader, writer = await server.opened(sent)
            dripping = asyncio.create_task(drip(writer))
            assert await closed(reader) == b""
            dripping.cancel()
            writer.close()

    run(work)


def test_an_incomplete_body_closes_the_connection() -> None:
    async def work() -> None:
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        async with run_server(body_seconds=0.5) as server:
            reader, writer = await server.opened(head + b"x" * 99)
            assert await server.request(head + b"x" * 100) == b"100"
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_a_client_that_is_too_slow_is_told_from_one_that_leaves() -> None:
    """For the status in the log: 408 or 499."""

    async def work() -> None:
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx"
        async with run_server(body_seconds=0.5) as server:
            reader, slow = await server.opened(head)
            assert await closed(reader) == b""
            _, leaving = await server.opened(head)
            await asyncio.sleep(0.1)
            leaving.close()
            async with asyncio.timeout(PATIENCE_S):
                while len(server.calls) < 3:
                    await asyncio.sleep(0.01)
            assert server.calls == ["startup", "too slow", "left"]
            slow.close()

    run(work)


def test_an_idle_connection_is_closed_after_its_time() -> None:
    async def work() -> None:
        async with run_server(header_seconds=0.5, body_seconds=0.5, idle_seconds=1.5) as server:
            reader, writer = await server.opened(GET)
            assert await answer(reader) == b"0"
            await asyncio.sleep(0.8)
            writer.write(GET)
            assert await answer(reader) == b"0"
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_a_slow_answer_is_not_cut_off() -> None:
    async def work() -> None:
        async with run_server(header_seconds=0.3, body_seconds=0.3, idle_seconds=0.3) as server:
            reader, writer = await server.opened(GET.replace(b"/ ", b"/wait ", 1))
            await server.waiting.wait()
            await asyncio.sleep(1.0)
            server.may_answer.set()
            assert await answer(reader) == b"0"
            writer.close()

    run(work)


def test_endless_headers_close_the_connection() -> None:
    async def work() -> None:
        async with run_server() as server:
            reader, writer = await server.opened(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20))
            assert await closed(reader) == b""
            writer.close()
            assert await server.request(GET[:-2] + b"X: " + b"x" * 30_000 + b"\r\n\r\n") == b"0"

    run(work)


REFUSED = b"POST /refuse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"


def test_a_client_rejected_while_sending_can_read_the_response() -> None:
    async def work() -> None:
        async with run_server(body_bytes=1 << 20) as server:
            reader, writer = await server.opened(REFUSED)
            for _ in range(20):  # far longer than the refusal needs
                await asyncio.sleep(0.02)
                writer.write(b"x" * (1 << 15))
                await writer.drain()
            found = await closed(reader)
            assert found.startswith(b"HTTP/1.1 413 ")
            assert found.endswith(b"too much\r\n0\r\n\r\n")
            writer.close()

    run(work)


async def taken(writer: asyncio.StreamWriter) -> int:
    """Return how many bytes can be sent before the connection breaks."""
    sent = 0
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * (1 << 16))
                await writer.drain()
                sent += 1 << 16
    return sent


def test_a_rejected_client_that_keeps_sending_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.5)

    async def work() -> None:
        async with run_server(body_bytes=1 << 20) as server:
            _, writer = await server.opened(REFUSED)
            assert await taken(writer) < 32 << 20  # what the buffers on the way hold

    run(work)


def test_bytes_that_are_not_http_get_400() -> None:
    async def work() -> None:
        async with run_server() as server:
            for sent in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
                reader, writer = await server.opened(sent)
                assert (await closed(reader)).startswith(b"HTTP/1.1 400 ")
                writer.close()

    run(work)


def test_sigterm_drains_finishes_requests_and_stops() -> None:
    async def work() -> None:
        async with run_server(drain_seconds=2.0) as server:
            reader, writer = await server.opened(GET.replace(b"/ ", b"/wait ", 1))
            await server.waiting.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            while "drain" not in server.calls:
                await asyncio.sleep(0.01)
            assert await server.request() == b"0"
            await refused(server)
            assert not reader.at_eof()
            server.may_answer.set()
            assert await answer(reader) == b"0"
            writer.close()
        assert server.calls == ["startup", "drain", "shutdown"]

    run(work)


async def refused(server: ServerUnderTest) -> None:
    """Wait until connections are refused."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await server.opened()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:  # the socket was closed in the middle of the connection
                continue
            writer.close()
            await asyncio.sleep(0.05)


def test_sigint_stops_without_draining() -> None:
    async def work() -> None:
        async with run_server(drain_seconds=600.0) as server:
            os.kill(os.getpid(), signal.SIGINT)
            await refused(server)
        assert server.calls == ["startup", "drain", "shutdown"]

    run(work)


def test_sighup_reloads_and_the_service_continues() -> None:
    async def work() -> None:
        async with run_server() as server:
            for times in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                while server.calls.count("reload") < times:
                    await asyncio.sleep(0.01)
            assert await server.request() == b"0"

    run(work)


def test_a_passed_socket_is_used_only_by_the_named_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        monkeypatch.setattr(module, "FIRST_PASSED_SOCKET", os.dup(passed.fileno()))
        monkeypatch.setenv("LISTEN_FDS", "1")
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        with open_socket("127.0.0.1", 1) as found:
            assert found.getsockname() == passed.getsockname()
        monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))  # meant for another
        with open_socket("127.0.0.1", 0) as found:
            assert found.getsockname() != passed.getsockname()


def test_a_taken_address_is_an_error_and_ipv6_works() -> None:
    with open_socket("::1", 0) as found:
        assert found.family == socket.AF_INET6
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        open_socket("127.0.0.1", taken.getsockname()[1])


def test_requests_above_the_connection_limit_are_marked() -> None:
    async def work() -> None:
        async with run_server(connections=3) as server:
            there = [await server.opened(GET) for _ in range(3)]
            assert [await answer(reader) for reader, _ in there] == [b"0"] * 3
            assert await server.request() == b"crowded"
            there[0][1].close()
            while await server.request() != b"0":
                await asyncio.sleep(0.01)
            for _, writer in there:
                writer.close()

    run(work)


def test_the_installed_uvicorn_is_of_the_pinned_minor_version() -> None:
    """`TimeoutProtocol` relies on undocumented attributes: to change the pin, check them and run the tests here."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (pin,) = (requirement for requirement in extras["serve"] if requirement.startswith("uvicorn"))
    least, most = (tuple(map(int, part.split("."))) for part in re.findall(r"[\d.]+", pin))
    assert most == (least[0], least[1] + 1)
    assert tuple(map(int, version("uvicorn").split(".")[:2])) == least


def test_nagles_delay_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it, an answer would wait 40 ms for the acknowledgement of the one before."""
    seen: list[int] = []

    class Watched(module.TimeoutProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def work() -> None:
        async with run_server() as server:
            assert await server.request() == b"0"

    monkeypatch.setattr(module, "TimeoutProtocol", Watched)
    run(work)
    assert seen == [1]


def test_large_headers_are_refused_even_in_one_piece() -> None:
    async def work() -> None:
        async with run_server() as server:
            for size, is_taken in ((50_000, True), (100_000, False)):
                head = b"GET / HTTP/1.1\r\nHost: localhost\r\nLong: " + b"x" * size + b"\r\n\r\n"
                reader, writer = await server.opened(head)
                first = await asyncio.wait_for(reader.read(12), PATIENCE_S)
                assert (first == b"HTTP/1.1 200") is is_taken
                writer.close()

    run(work)


def test_connections_for_which_there_are_no_descriptors_are_closed_at_once() -> None:
    async def work() -> None:
        async with run_server(max_open=2) as server:
            kept = [await server.opened() for _ in range(2)]
            await asyncio.sleep(0.1)
            reader, writer = await server.opened(GET)
            assert await closed(reader) == b""
            writer.close()
            kept[0][1].write(GET)
            assert await answer(kept[0][0]) == b"0"
            for _, other in kept:
                other.close()

    run(work)
