"""Kill an engine process every few seconds while requests come in (S2).

    python tests/chaos/engine_kills.py [--seconds 60] [--every 6] [--rate 20] [--without-retries]

Every second one is stopped a moment before, so that sentences are lost with it. At least 99.9 % of the requests must be
answered with 200, none with another's translation, and an engine must be back within 3 s (95th percentile). Prints one
JSON line; the exit code says whether all held.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import time
from datetime import datetime

from load import percentile, send_at_rate, translate_alone
from service_process import ServiceProcess, start_service

STOPPED_S = 0.5
NO_RETRIES = """
from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.errors import TranslationFailedError
def lost(self, sentences):
    for sentence in sentences:
        if not sentence.answer.done():
            sentence.answer.set_exception(TranslationFailedError("lost"))
Dispatcher._on_lost = lost
"""


async def killing(service: ServiceProcess, seconds: float, every: float, kills: list[float]) -> None:
    """A random engine each time, by SIGKILL. The next one only when the last one is back: on a slow machine it takes
    seconds, and an engine that is killed while it starts is never logged as started."""
    draw, end = random.Random(1), time.monotonic() + seconds
    while time.monotonic() + every < end:
        await asyncio.sleep(every)
        if sum(one["event"] == "engine started" for one in service.log) < len(kills):
            continue
        if engines := service.engines():
            victim = draw.choice(engines)
            if len(kills) % 2 == 0:
                os.kill(victim, signal.SIGSTOP)
                await asyncio.sleep(STOPPED_S)
            os.kill(victim, signal.SIGKILL)
            kills.append(time.time())


def run(seconds: float, every: float, rate: float, broken: str = "") -> dict[str, float]:
    kills: list[float] = []
    with start_service("demo", "--engines", "2", broken=broken) as service:
        expected = asyncio.run(translate_alone(service.url))
        came = asyncio.run(send_at_rate(service.url, rate, seconds, lambda: killing(service, seconds, every, kills)))
        service.wait_for_event("engine started", len(kills))
        started = [
            datetime.fromisoformat(one["time"]).timestamp() for one in service.log if one["event"] == "engine started"
        ]
    answered = [one for one in came if one.status == 200]
    return {
        "requests": len(came),
        "kills": len(kills),
        "answered_share": len(answered) / len(came),
        "mixed_up": sum(one.translation != expected[one.text] for one in answered),
        "back_p95_s": round(percentile([back - kill for kill, back in zip(kills, started, strict=False)], 95), 2),
        "slowest_s": round(max(one.seconds for one in came), 2),
    }


def holds(values: dict[str, float]) -> bool:
    return values["answered_share"] >= 0.999 and not values["mixed_up"] and values["back_p95_s"] <= 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=6.0)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument(
        "--without-retries", action="store_true", help="as it would be if lost sentences were not retried"
    )
    given = parser.parse_args()
    values = run(given.seconds, given.every, given.rate, NO_RETRIES if given.without_retries else "")
    print(json.dumps({"bench": "engine_kills", "values": values}))
    raise SystemExit(not holds(values))


if __name__ == "__main__":
    main()
