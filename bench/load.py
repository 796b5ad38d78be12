"""Send requests to a running service, as fast as it answers or at a fixed rate: the client of bench/serve.py.

    python bench/load.py URL FILE --seconds 20 [--warm 5] (--connections 64 | --rate 20)

Each sentence of FILE is one request to /translate. With `--connections`, that many connections send without a pause;
with `--rate`, requests leave at that rate, answered or not. Requests of the first seconds are not counted. Values:
answers per second, latencies in ms, the number of answers by status, and the share of one core that this client used.
"""

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from report import option_parser, print_values


class LoadClient:
    """Requests over kept-alive connections, and the time of each answer."""

    def __init__(self, url: str, file: Path) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname, address.port
        self.bodies = [_request(address.netloc, line) for line in file.read_text("utf-8").splitlines()]
        self.answers: list[tuple[float, float, int]] = []
        """Time of the answer, latency, status."""
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.number = 0

    async def send(self) -> None:
        """Send one request over a free connection, or a new one, and record its answer."""
        begin = time.perf_counter()
        self.number += 1
        body = self.bodies[self.number % len(self.bodies)]
        while self.free and self.free[-1][0].at_eof():  # closed by the service after a pause
            self.free.pop()[1].close()
        connection = self.free.pop() if self.free else await asyncio.open_connection(self.host, self.port)
        reader, writer = connection
        writer.write(body)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(size)
        now = time.perf_counter()
        self.answers.append((now, now - begin, int(lines[0].split()[1])))
        if b"connection: close" in lines:
            writer.close()
        else:
            self.free.append(connection)


def _request(host: str, line: str) -> bytes:
    body = json.dumps({"q": line, "source": "en", "target": "de"}).encode()
    head = f"POST /translate HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def send_without_pause(client: LoadClient, connections: int, end: float) -> None:
    async def send() -> None:
        while time.perf_counter() < end:
            await client.send()

    await asyncio.gather(*(send() for _ in range(connections)))


async def send_at_rate(client: LoadClient, rate: float, begin: float, end: float) -> None:
    tasks: set[asyncio.Task[None]] = set()
    for number in range(round((end - begin) * rate)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        tasks.add(asyncio.create_task(client.send()))
    await asyncio.gather(*tasks)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("url")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float)
    options = parser.parse_args()
    client = LoadClient(options.url, options.file)
    begin = time.perf_counter()
    start, end = begin + options.warm, begin + options.warm + options.seconds
    if options.rate:
        asyncio.run(send_at_rate(client, options.rate, begin, end))
    else:
        asyncio.run(send_without_pause(client, options.connections, end))
    cores = time.process_time() / (time.perf_counter() - begin)
    counted = [answer for answer in client.answers if start <= answer[0] <= end]
    latencies = sorted(1000 * latency for _, latency, status in counted if status == 200)
    if not latencies:
        raise SystemExit(f"{options.url}: no request was answered with status 200")
    values = {
        "per_second": len(latencies) / options.seconds,
        **{f"p{part}_ms": latencies[min(len(latencies) - 1, len(latencies) * part // 100)] for part in (50, 95, 99)},
        **{f"status_{status}": count for status, count in sorted(Counter(row[2] for row in client.answers).items())},
        "client_cores": cores,
    }
    print_values("load", values)


if __name__ == "__main__":
    main()
