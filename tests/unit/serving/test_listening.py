"""HTTP over real sockets: who is slow is cut off, who is there is served, and signals do what they are for."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from house import PATIENCE_S
from starlette.types import Receive, Scope, Send

from dragoman.serving import listening as module
from dragoman.serving.limits import Limits
from dragoman.serving.listening import listening, serve

pytestmark = pytest.mark.slow

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FAR = 60.0


class Listened:
    """A server of an application that says how much it was sent; /wait is answered when the test allows it."""

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
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if scope["path"] == "/wait":
            self.waiting.set()
            await self.may_answer.wait()
        body = b"crowded" if scope["crowded"] else str(size).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def reload(self) -> None:
        self.calls.append("reload")

    async def opened(self, sent: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        return reader, writer

    async def asked(self, sent: bytes = GET) -> bytes:
        """What comes back on a connection of its own, without its head."""
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
    """All that still came before the other side hung up."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    except ConnectionError:
        return b""


@asynccontextmanager
async def listened(**limits: Any) -> AsyncIterator[Listened]:
    patient = {"header_seconds": FAR, "body_seconds": FAR, "idle_seconds": FAR, "seconds": FAR, "drain_seconds": 0.0}
    with listening("127.0.0.1", 0) as where:
        server = Listened(where)
        task = asyncio.create_task(
            serve(
                server.app,
                where,
                Limits.model_validate(patient | limits),
                lambda: server.calls.append("drain"),
                server.reload,
                server.ready.set,
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
def test_a_head_that_does_not_come_in_time_is_not_waited_for(sent: bytes) -> None:
    async def work() -> None:
        async with listened(header_seconds=0.5) as server:
            slow = [await server.opened(sent) for _ in range(20)]
            assert await server.asked() == b"0"
            for reader, writer in slow:
                assert await closed(reader) == b""
                writer.close()
            assert await server.asked() == b"0"

    run(work)


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, as long as anybody takes it."""
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
def test_who_sends_a_little_now_and_then_gains_no_time(sent: bytes, limit: str) -> None:
    async def work() -> None:
        async with listened(**{limit: 0.5}) as server:
            reader, writer = await server.opened(sent)
            dripping = asyncio.create_task(drip(writer))
            assert await closed(reader) == b""
            dripping.cancel()
            writer.close()

    run(work)


def test_a_body_that_stops_halfway_is_not_waited_for_and_a_whole_one_is_read() -> None:
    async def work() -> None:
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        async with listened(body_seconds=0.5) as server:
            reader, writer = await server.opened(head + b"x" * 99)
            assert await server.asked(head + b"x" * 100) == b"100"
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_a_connection_may_rest_between_requests_but_not_for_ever() -> None:
    async def work() -> None:
        async with listened(header_seconds=0.5, body_seconds=0.5, idle_seconds=1.5) as server:
            reader, writer = await server.opened(GET)
            assert await answer(reader) == b"0"
            await asyncio.sleep(0.8)
            writer.write(GET)
            assert await answer(reader) == b"0"
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_what_takes_long_to_answer_is_not_cut_off() -> None:
    async def work() -> None:
        async with listened(header_seconds=0.3, body_seconds=0.3, idle_seconds=0.3) as server:
            reader, writer = await server.opened(GET.replace(b"/ ", b"/wait ", 1))
            await server.waiting.wait()
            await asyncio.sleep(1.0)
            server.may_answer.set()
            assert await answer(reader) == b"0"
            writer.close()

    run(work)


def test_a_head_without_end_is_not_stored() -> None:
    async def work() -> None:
        async with listened() as server:
            reader, writer = await server.opened(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20))
            assert await closed(reader) == b""
            writer.close()
            assert await server.asked(GET[:-2] + b"X: " + b"x" * 30_000 + b"\r\n\r\n") == b"0"

    run(work)


REFUSED = b"POST /refuse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"


def test_who_is_refused_while_sending_may_send_on_for_a_moment_and_reads_why() -> None:
    async def work() -> None:
        async with listened(body_bytes=1 << 20) as server:
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
    """How many bytes can be sent before the connection breaks."""
    sent = 0
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * (1 << 16))
                await writer.drain()
                sent += 1 << 16
    return sent


def test_who_sends_on_for_ever_is_cut_off_and_hardly_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVE_SECONDS", 0.5)

    async def work() -> None:
        async with listened(body_bytes=1 << 20) as server:
            _, writer = await server.opened(REFUSED)
            assert await taken(writer) < 32 << 20  # what the buffers on the way hold

    run(work)


def test_what_is_no_http_is_answered_with_a_mistake() -> None:
    async def work() -> None:
        async with listened() as server:
            for sent in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
                reader, writer = await server.opened(sent)
                assert (await closed(reader)).startswith(b"HTTP/1.1 400 ")
                writer.close()

    run(work)


def test_told_to_stop_it_takes_requests_for_a_while_finishes_them_and_ends() -> None:
    async def work() -> None:
        async with listened(drain_seconds=2.0) as server:
            reader, writer = await server.opened(GET.replace(b"/ ", b"/wait ", 1))
            await server.waiting.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            while "drain" not in server.calls:
                await asyncio.sleep(0.01)
            assert await server.asked() == b"0"
            await refused(server)
            assert not reader.at_eof()
            server.may_answer.set()
            assert await answer(reader) == b"0"
            writer.close()
        assert server.calls == ["startup", "drain", "shutdown"]

    run(work)


async def refused(server: Listened) -> None:
    """Wait until nobody is let in any more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await server.opened()
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.05)


def test_interrupted_by_hand_it_does_not_wait_for_who_balances_load() -> None:
    async def work() -> None:
        async with listened(drain_seconds=600.0) as server:
            os.kill(os.getpid(), signal.SIGINT)
            await refused(server)
        assert server.calls == ["startup", "drain", "shutdown"]

    run(work)


def test_a_hangup_reloads_and_the_service_goes_on() -> None:
    async def work() -> None:
        async with listened() as server:
            for times in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                while server.calls.count("reload") < times:
                    await asyncio.sleep(0.01)
            assert await server.asked() == b"0"

    run(work)


def test_a_socket_that_was_passed_is_used_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        monkeypatch.setattr(module, "FIRST_PASSED_SOCKET", os.dup(passed.fileno()))
        monkeypatch.setenv("LISTEN_FDS", "1")
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        with listening("127.0.0.1", 1) as found:
            assert found.getsockname() == passed.getsockname()
        monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))  # meant for another
        with listening("127.0.0.1", 0) as found:
            assert found.getsockname() != passed.getsockname()


def test_an_address_is_taken_once_and_ipv6_is_one_too() -> None:
    with listening("::1", 0) as found:
        assert found.family == socket.AF_INET6
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        listening("127.0.0.1", taken.getsockname()[1])


def test_whoever_comes_when_too_many_are_there_is_known_as_such() -> None:
    async def work() -> None:
        async with listened(connections=3) as server:
            there = [await server.opened(GET) for _ in range(3)]
            assert [await answer(reader) for reader, _ in there] == [b"0"] * 3
            assert await server.asked() == b"crowded"
            there[0][1].close()
            while await server.asked() != b"0":
                await asyncio.sleep(0.01)
            for _, writer in there:
                writer.close()

    run(work)


def test_answers_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And do not wait for what was sent before to be confirmed, which takes 40 ms."""
    seen: list[int] = []

    class Watched(module.Impatient):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def work() -> None:
        async with listened() as server:
            assert await server.asked() == b"0"

    monkeypatch.setattr(module, "Impatient", Watched)
    run(work)
    assert seen == [1]
