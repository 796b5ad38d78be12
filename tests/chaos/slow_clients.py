"""Hold a service's connections in every slow way, and send it far too much: it must shut them out, unnoticed by others.

    python tests/chaos/slow_clients.py [--heads 300] [--bodies 100] [--megabytes 1024]

Clients that send the head of a request a byte a second, or its body, or nothing but empty lines after a whole request,
that ask and never read the answers, or ask a thousand times at once, must be closed within 10 seconds (idle connections
are given 3 here). A body of 1 GB must get its 413 before it is read, whether its size is declared or not; so must a
head of 1 GB be cut off. The HTTP process may grow by 20 MB meanwhile, and of requests at a fixed rate the
slowest percent may take twice as long as before. Prints one JSON line. --patient is the inverse: HTTP as uvicorn alone
speaks it, and no limit of bodies.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

from service_process import ServiceProcess, start_service

LIMITS: Final = ("idle_seconds=3", "wait=30", "seconds=60")
PATIENT: Final = """
import dragoman.serving.http_server as http_server
http_server.HEAD_BYTES = http_server.MAX_PIPELINED = 1 << 40
http_server.TimeoutProtocol.pause_writing = http_server.HttpToolsProtocol.pause_writing
http_server.TimeoutProtocol._set_deadline = lambda self, seconds: None
"""
SENTENCE: Final = {"q": "Where is the station?", "source": "en", "target": "de"}
HEAD: Final = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HEALTH: Final = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG: Final = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 6
CHUNK: Final = bytes(1 << 16)


def good_traffic(port: int, seconds: float, rate: float) -> list[float]:
    """Milliseconds of each request, from the moment that it was due: a late one is slow."""
    connection = http.client.HTTPConnection("localhost", port, timeout=120)
    found, begin = [], time.perf_counter()
    for number in range(int(seconds * rate)):
        due = begin + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        connection.request("POST", "/translate", json.dumps(SENTENCE), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        found.append(1000 * (time.perf_counter() - due))
    connection.close()
    return found


def p99(milliseconds: list[float]) -> float:
    return round(sorted(milliseconds)[int(0.99 * (len(milliseconds) - 1))], 1)


async def slow(port: int, first: bytes, drop: bytes, reads: bool, most: float) -> float:
    """Sends the first part, then a drop a second, or many and reads nothing. Gives when it was shut out, in seconds."""
    begin = time.monotonic()
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)  # so that little is enough not to be read
    small.setblocking(False)
    await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=small, limit=1 << 12)
    writer.write(first)
    try:
        while (since := time.monotonic() - begin) < most:
            with contextlib.suppress(TimeoutError):
                if reads and not await asyncio.wait_for(reader.read(1 << 16), 1.0):
                    break
                writer.write(drop)
                await asyncio.wait_for(writer.drain(), 1.0)
            if not reads:
                await asyncio.sleep(0.05)  # so that it has much to hold before long
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return since


async def all_slow(port: int, heads: int, bodies: int, others: int, most: float) -> dict[str, float]:
    kinds = {
        "head": (heads, (HEAD, b"x", True)),
        "body": (bodies, (HEAD + b"Content-Length: 1000\r\n\r\n{", b" ", True)),
        "empty_lines": (others, (HEALTH, b"\r\n", True)),
        "unread": (others, (LONG, LONG, False)),
        "at_once": (others, (HEALTH * 1000, b"", True)),
    }
    names = [name for name, (number, _) in kinds.items() for _ in range(number)]
    found = await asyncio.gather(*(slow(port, *kinds[name][1], most) for name in names))
    return {name: max(took for other, took in zip(names, found, strict=True) if other == name) for name in kinds}


async def too_much(port: int, begin: bytes, chunk: bytes, megabytes: int, most: float) -> tuple[int, int]:
    """Send until a response comes; return the status, 0 for none, and how many megabytes were sent."""
    reader, writer = await asyncio.open_connection("localhost", port)
    answer = asyncio.ensure_future(reader.read(1 << 16))
    writer.write(begin)
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < megabytes << 20 and not answer.done():
            writer.write(chunk)
            sent += len(chunk)
            await asyncio.sleep(0)  # so that an answer is seen
            await asyncio.wait_for(writer.drain(), 60)
    try:
        status = int((await asyncio.wait_for(answer, most)).split()[1])
    except (ConnectionError, TimeoutError, IndexError):
        status = 0
    writer.transport.abort()
    return status, sent >> 20


async def all_too_much(port: int, megabytes: int, most: float) -> dict[str, tuple[int, int]]:
    size = f"Content-Length: {megabytes << 20}\r\n\r\n".encode()
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % len(CHUNK) + CHUNK + b"\r\n"
    ours = HEAD.replace(b"/translate", b"/v1/translate")
    return {
        "declared": await too_much(port, HEAD + size, CHUNK, megabytes, most),
        "chunked": await too_much(port, HEAD + chunked, chunk, megabytes, most),
        "chunked_v1": await too_much(port, ours + chunked, chunk, megabytes, most),
        "head": await too_much(port, HEAD + b"X-Long: ", b"x" * len(CHUNK), megabytes, most),
    }


class Memory:
    """The most that the HTTP process has grown by, looked at all the time."""

    def __init__(self, service: ServiceProcess) -> None:
        self.service, self.before = service, service.resident()
        self.most = 0

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self.service.resident() - self.before)
            await asyncio.sleep(0.05)


async def attack(service: ServiceProcess, wanted: argparse.Namespace, others: int) -> dict[str, Any]:
    loop, port = asyncio.get_running_loop(), service.port
    with ProcessPoolExecutor(1) as pool:
        before = await loop.run_in_executor(pool, good_traffic, port, wanted.seconds, wanted.rate)
        memory = Memory(service)
        watching = asyncio.ensure_future(memory.watch())
        traffic = loop.run_in_executor(pool, good_traffic, port, max(wanted.seconds, 10.0), wanted.rate)
        closed = await all_slow(port, wanted.heads, wanted.bodies, others, 2.0 * wanted.closed)
        during = await traffic
        large = await all_too_much(port, wanted.megabytes, wanted.closed)
        watching.cancel()
    return {
        **{f"{name}_closed_s": round(took, 1) for name, took in closed.items()},
        **{f"{name}_status": status for name, (status, _) in large.items()},
        "most_megabytes_sent": max(sent for _, sent in large.values()),
        "megabytes_grown": round(memory.most / 2**20, 1),
        "p99_before_ms": p99(before),
        "p99_during_ms": p99(during),
        "p99_ratio": round(p99(during) / p99(before), 2),
    }


def held(values: dict[str, Any], wanted: argparse.Namespace) -> bool:
    in_time = all(took <= wanted.closed for name, took in values.items() if name.endswith("_closed_s"))
    refused = all(values[f"{name}_status"] == 413 for name in ("declared", "chunked", "chunked_v1"))
    unread = values["most_megabytes_sent"] <= 8  # what fits into the buffers on the way, on both sides
    return in_time and refused and unread and values["megabytes_grown"] <= 20 and values["p99_ratio"] <= wanted.within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=300)
    parser.add_argument("--bodies", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=20.0, help="of good requests before, and meanwhile")
    parser.add_argument("--rate", type=float, default=20.0, help="of good requests, a second")
    parser.add_argument("--closed", type=float, default=10.0, help="seconds in which the slow must be shut out")
    parser.add_argument("--within", type=float, default=2.0, help="how many times as slow the good ones may be")
    parser.add_argument("--patient", action="store_true", help="without the protection: this must fail")
    wanted = parser.parse_args()
    limits = (*LIMITS, "body_bytes=4000000000") if wanted.patient else LIMITS
    arguments = ["demo", "--engines", "1", *(word for limit in limits for word in ("--limit", limit))]
    with start_service(*arguments, broken=PATIENT if wanted.patient else "") as service:
        values = asyncio.run(attack(service, wanted, max(1, wanted.heads // 30)))
    values = {"heads": wanted.heads, "bodies": wanted.bodies, **values}
    print(json.dumps({"bench": "slow_clients", "values": values}))
    raise SystemExit(not held(values, wanted))


if __name__ == "__main__":
    main()
