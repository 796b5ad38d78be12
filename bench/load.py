"""A client that asks as fast as it is answered, or at a given rate: one side of bench/serve.py, in its own process.

    python bench/load.py URL FILE --seconds 20 [--warm 5] (--connections 64 | --rate 20)

Sentences of FILE are sent one by one to /translate. With `--connections`, so many ask without a pause; with `--rate`,
requests leave at that many a second, whatever comes back. What is asked in the first seconds is not counted. Prints one
JSON line: answered a second, latencies in ms, statuses, and the share of one core that this client took itself.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit


class Asked:
    """What has been asked, and when each was answered."""

    def __init__(self, url: str, file: Path) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname, address.port
        self.bodies = [_request(address.netloc, line) for line in file.read_text("utf-8").splitlines()]
        self.answered: list[tuple[float, float, int]] = []
        """When, after how long, and with which status."""
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.number = 0

    async def once(self) -> None:
        """One request over a connection that is free, or a new one."""
        begin = time.perf_counter()
        self.number += 1
        body = self.bodies[self.number % len(self.bodies)]
        connection = self.free.pop() if self.free else await asyncio.open_connection(self.host, self.port)
        reader, writer = connection
        writer.write(body)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(size)
        now = time.perf_counter()
        self.answered.append((now, now - begin, int(lines[0].split()[1])))
        if b"connection: close" in lines:
            writer.close()
        else:
            self.free.append(connection)


def _request(host: str, line: str) -> bytes:
    body = json.dumps({"q": line, "source": "en", "target": "de"}).encode()
    head = f"POST /translate HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def without_pause(asked: Asked, connections: int, end: float) -> None:
    async def ask() -> None:
        while time.perf_counter() < end:
            await asked.once()

    await asyncio.gather(*(ask() for _ in range(connections)))


async def at_rate(asked: Asked, rate: float, begin: float, end: float) -> None:
    tasks: set[asyncio.Task[None]] = set()
    for number in range(round((end - begin) * rate)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        tasks.add(asyncio.create_task(asked.once()))
    await asyncio.gather(*tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float)
    given = parser.parse_args()
    asked = Asked(given.url, given.file)
    begin = time.perf_counter()
    start, end = begin + given.warm, begin + given.warm + given.seconds
    if given.rate:
        asyncio.run(at_rate(asked, given.rate, begin, end))
    else:
        asyncio.run(without_pause(asked, given.connections, end))
    cpu = time.process_time() / (time.perf_counter() - begin)
    counted = [one for one in asked.answered if start <= one[0] <= end]
    times = sorted(1000 * taken for _, taken, status in counted if status == 200)
    values = {
        "per_second": sum(status == 200 for *_, status in counted) / given.seconds,
        **{f"p{part}_ms": times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)},
        "statuses": dict(Counter(str(status) for *_, status in asked.answered)),
        "client_cores": round(cpu, 3),
    }
    print(json.dumps(values))


if __name__ == "__main__":
    main()
