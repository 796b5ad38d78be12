"""Half, and three times, of what the service can do (S1), sent by k6 at a fixed rate.

    python tests/chaos/overload.py [--seconds 60] [--times 3] [--without-refusing]

What it can do is measured first, by clients that send without a pause. At half of it, all must be answered with 200,
the 99th percentile within five times the median of an idle service. At three times, admitted requests must be answered
within 1 s (99th percentile), the rest refused within 50 ms with Retry-After, as much be answered as 90 % of what it can
do, and memory must not grow: that of the HTTP process, in the last sixth of the time against the second sixth. A
service that answers all of three times can do more than was measured, on a machine that had less time to give: then
the rate is doubled until it is an overload. Prints one JSON line; the exit code says whether all held.
"""

import argparse
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from service_process import ServiceProcess, start_service

SCRIPT = Path(__file__).with_name("overload.js")
MOST_GROWTH = 0.05
MOST_DOUBLINGS = 4
SUBJECTS = ("I", "We", "You", "They", "The children", "My parents", "Some people", "Her friends", "The dogs", "Two men")
DO = (
    "come home",
    "eat bread",
    "play in the garden",
    "sleep",
    "read a book",
    "wait",
    "sing",
    "buy a house",
    "work hard",
)
WHEN = ("", " today", " at night", " every day", " in summer", " again", " after dinner", " before noon", " now")
TEXTS = [f"{subject} {do}{when}." for subject, do, when in itertools.product(SUBJECTS, DO, WHEN)]
"""All different: a batch translates the same sentence only once, and the service would seem to have no limit."""
WITHOUT_LIMITS = ("--limit", "connections=1000000", "--limit", "seconds=300")
"""Otherwise requests would be rejected for their number of connections, or time out in the end."""
NO_REFUSING = """
from dragoman.serving.dispatcher import Dispatcher
Dispatcher.admit = lambda self, cost: None
Dispatcher.check_capacity = lambda self: None
"""


def by_k6(service: ServiceProcess, seconds: float, users: int, rate: float = 0.0) -> dict[str, Any]:
    """What k6 says: of so many users that send without a pause, or of so many requests a second."""
    environment = os.environ | {
        "URL": service.url,
        "RATE": str(max(1, round(rate))) if rate else "",
        "SECONDS": str(round(seconds)),
        "USERS": str(users),
        "TEXTS": json.dumps(TEXTS),
        "K6_NO_USAGE_REPORT": "true",
    }
    command = ["k6", "run", "--quiet", "--log-output", "none", str(SCRIPT)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    metrics: dict[str, Any] = json.loads(output)
    return {name: metric["values"] for name, metric in metrics.items()}


@contextmanager
def watched(service: ServiceProcess, seconds: float) -> Iterator[list[int]]:
    """The memory of its process, sixty times in so many seconds."""
    sizes, over = [service.resident()], threading.Event()

    def look() -> None:
        while not over.wait(seconds / 60):
            sizes.append(service.resident())

    thread = threading.Thread(target=look)
    thread.start()
    yield sizes
    over.set()
    thread.join()


def growth(sizes: list[int]) -> float:
    sixth = len(sizes) // 6
    return median(sizes[-sixth:]) / median(sizes[sixth : 2 * sixth]) - 1


def run(seconds: float, times: float, broken: str = "", measuring: float = 15.0) -> dict[str, float]:
    with start_service("demo", *(WITHOUT_LIMITS if broken else ()), broken=broken) as service:
        by_k6(service, 3.0, 32)  # warm
        idle = by_k6(service, 3.0, 1)["accepted"]["med"]
        capacity = by_k6(service, measuring, 32)["ok"]["count"] / measuring
        half = by_k6(service, seconds, round(capacity) + 20, capacity / 2)
        for _ in range(MOST_DOUBLINGS):
            # As many as wait at a time: each keeps a connection. If all are admitted, there must be far more.
            users = min(2 * times * capacity, 4000) if broken else 2 * capacity
            with watched(service, seconds) as sizes:
                full = by_k6(service, seconds, round(users) + 20, times * capacity)
            count = {name: metric.get("count", 0) for name, metric in full.items() if "count" in metric}
            refused = count.get("busy", 0) + count.get("limited", 0)
            if broken or refused:
                break
            capacity *= 2
    return {
        "capacity": round(capacity, 1),
        "idle_p50_ms": round(idle, 1),
        "half_p99_ms": round(half["accepted"]["p(99)"], 1),
        "half_not_answered": sum(half[name]["count"] for name in ("busy", "limited", "other") if name in half),
        "full_p99_ms": round(full["accepted"]["p(99)"], 1),
        "full_refused_p99_ms": round(full["refused"]["p(99)"], 1) if "refused" in full else 0.0,
        "full_goodput": round(count.get("ok", 0) / seconds / capacity, 3),
        "full_refused": refused,
        "full_other": count.get("other", 0) + count.get("without_retry_after", 0),
        "full_never_sent": count.get("dropped_iterations", 0),
        "memory_growth": round(growth(sizes), 3),
        "memory_megabytes": round(max(sizes) / 2**20),
    }


def what_fails(values: dict[str, float]) -> list[str]:
    """The names of what does not hold."""
    held = {
        "half_not_answered": values["half_not_answered"] == 0,
        "half_p99_ms": values["half_p99_ms"] <= 5 * values["idle_p50_ms"],
        "full_p99_ms": values["full_p99_ms"] <= 1000,
        "full_refused_p99_ms": values["full_refused_p99_ms"] <= 50,
        "full_goodput": values["full_goodput"] >= 0.9,
        "full_other": values["full_other"] == 0,
        "full_never_sent": values["full_never_sent"] == 0,  # else k6 waited for answers, and it was not three times
        "memory_growth": values["memory_growth"] <= MOST_GROWTH,
    }
    return [name for name, good in held.items() if not good]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--times", type=float, default=3.0, help="of what it can do, sent under overload")
    parser.add_argument("--without-refusing", action="store_true", help="as it would be if every request were admitted")
    given = parser.parse_args()
    values = run(given.seconds, given.times, NO_REFUSING if given.without_refusing else "")
    print("does not hold:", ", ".join(what_fails(values)) or "nothing")
    print(json.dumps({"bench": "overload", "values": values}))
    raise SystemExit(bool(what_fails(values)))


if __name__ == "__main__":
    main()
