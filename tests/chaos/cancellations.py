"""How soon an engine is free again when a client leaves, or its time is over: `python tests/chaos/cancellations.py`.

A client sends texts that take an engine many seconds, and leaves. At the same moment another client sends a short
one: it has to wait only until the engine is free. `idle` is how long a short one takes otherwise. `--careless` takes
away what frees engines.
"""

import argparse
import asyncio
import json
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any, Final

import httpx
from service_process import ServiceProcess, start_service

CARELESS: Final = "import dragoman.serving.engine_pool as pool; pool.ABANDONED_SECONDS = 1e9"
WORDS: Final = "the quick brown station is near old house of my friend who walks with many dogs every morning"
LONG: Final = " ".join(WORDS.split()[(7 * i * i + i) % 18] for i in range(200))
TEXTS: Final = [f"{LONG} {number}" for number in range(48)]
LIMITS: Final = ("--limit", "batch_tokens=100000", "--limit", "characters=100000")
"""All texts in one batch, which keeps an engine busy for seconds; by default batches are so small that none does."""
PATIENCE: Final = 300.0
SHORT: Final = {"texts": "Where is the station?", "model": "demo"}


def cpu_seconds(service: ServiceProcess) -> float:
    """The time that the engine processes have computed."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in service.engines()]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


async def measure(service: ServiceProcess, times: int, deadline: float) -> list[float]:
    """The seconds for which short requests waited for engines that were freed.

    Ends early once the service has learned how long such texts take, and refuses them at once.
    """
    found: list[float] = []
    async with httpx.AsyncClient(base_url=service.url, timeout=300) as client:
        for _ in range(times):
            content = {"texts": TEXTS, "model": "demo", "beam_size": 10}
            before = cpu_seconds(service)
            hostile = asyncio.create_task(client.post("/v1/translate", json=content))
            while cpu_seconds(service) < before + 0.1 and not hostile.done():  # until an engine works on it
                await asyncio.sleep(0.02)
            if deadline < PATIENCE:
                if "timeout" not in (await hostile).text:
                    break
            else:
                hostile.cancel()
                await asyncio.gather(hostile, return_exceptions=True)
            begin = time.perf_counter()
            while (await client.post("/v1/translate", json=SHORT)).status_code != 200:
                await asyncio.sleep(0.01)
            found.append(time.perf_counter() - begin)
    return found


def measure_idle(service: ServiceProcess) -> float:
    """The median seconds of a short request when nothing else is to be done."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        found = []
        for _ in range(9):
            begin = time.perf_counter()
            client.post("/v1/translate", json=SHORT)
            found.append(time.perf_counter() - begin)
    return statistics.median(found)


def run(times: int, seconds: float, broken: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for cause, deadline in (("left", PATIENCE), ("timeout", seconds)):
        found: list[float] = []
        idle, cancelled, lost = [], 0, 0
        for _ in range(times):  # services that have not learned yet
            limits = (*LIMITS, "--limit", f"seconds={deadline}")
            with start_service("demo", "--engines", "1", *limits, broken=broken) as service:
                found += asyncio.run(measure(service, times - len(found), deadline))
                idle.append(measure_idle(service))
                cancelled += sum(line["event"] == "work cancelled" for line in service.log)
                lost += sum(line["event"] == "engine lost" for line in service.log)
            if len(found) == times:
                break
        found.sort()
        values |= {
            f"{cause}_measured": len(found),
            f"{cause}_idle_s": round(statistics.median(idle), 3),
            f"{cause}_p50_s": round(statistics.median(found), 3) if found else math.nan,
            f"{cause}_p95_s": round(found[int(0.95 * len(found))], 3) if found else math.nan,
            f"{cause}_worst_s": round(found[-1], 3) if found else math.nan,
            f"{cause}_cancelled": cancelled,
            f"{cause}_lost": lost,
        }
        print(values, flush=True)  # the second half can take long
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="limit of time of the requests that time out")
    parser.add_argument("--within", type=float, default=1.0)
    parser.add_argument("--careless", action="store_true")
    wanted = parser.parse_args()
    values = run(wanted.times, wanted.seconds, CARELESS if wanted.careless else "")
    print(json.dumps({"bench": "cancellations", "values": values}))
    raise SystemExit(not all(values[f"{cause}_worst_s"] <= wanted.within for cause in ("left", "timeout")))


if __name__ == "__main__":
    main()
