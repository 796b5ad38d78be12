"""Texts that would cost far more than they look, sent beside the requests of ordinary users (S9).

    python tests/chaos/exhaustion.py [--seconds 60] [--rate 5] [--hostile 5] [--without-caps]

A thousand times the same letter, lines of Chinese, Russian and random Unicode, and lines of 50 kB. At least 99 % of the
ordinary requests must be answered with 200, their 99th percentile within three times that of the same requests without
the hostile ones, and no engine may be killed. Prints one JSON line; the exit code says whether all held.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from functools import partial

import httpx
from load import TEXTS, percentile, send_at_rate
from service_process import start_service

CHINESE = "我们昨天在公园里散步的时候看见了一只很大的狗它正在和孩子们玩耍后来下雨了我们就回家喝茶看书直到晚上才出去吃饭"
RUSSIAN = "Вчера мы гуляли в парке и увидели большую собаку, которая бегала вместе с детьми, потом пошёл дождь. "  # noqa: RUF001
LINES, COLUMNS, LONG_LINE, KINDS = 8, 120, 50_000, 6
ORDINARY = [
    f"{text[:-1]}, or so {name} said.".replace("?,", ",") for text in TEXTS for name in ("she", "he", "they", "we")
]
WITHOUT_CAPS = ("--limit", "sentence_tokens=1000000")
NO_CAPS = """
from dragoman.translation import kept
class Part(kept.Part):
    num_tokens = property(lambda self: 2 + len(self.text.encode()) // 4)
kept.split_kept = lambda texts, subwords: [
    [Part(*each)] for each in zip(texts, subwords.encode(list(texts)).rows(), strict=True)
]
"""


def hostile_texts(seed: int) -> list[str]:
    """Return texts that differ with the seed, so that no text is translated only once."""
    draw = random.Random(seed)
    blocks = ((0x100, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x1FFFF))
    random_lines = ("".join(chr(draw.randint(*draw.choice(blocks))) for _ in range(COLUMNS)) for _ in range(LINES))
    letter = draw.choice("abcdefghijklmnopqrstuvwxyz")
    return [
        letter * 1000,
        "\n".join(_rotate(CHINESE, draw) for _ in range(LINES)),
        "\n".join(_rotate(RUSSIAN, draw) for _ in range(LINES)),
        "\n".join(random_lines),
        letter * LONG_LINE,
        _rotate(CHINESE, draw) * (LONG_LINE // COLUMNS),
    ]


def _rotate(text: str, draw: random.Random) -> str:
    start = draw.randrange(len(text))
    return (text[start:] + text * 3)[:COLUMNS]


async def send_hostile(url: str, texts: list[str], rate: float, statuses: Counter[int]) -> None:
    """Send hostile texts at a rate, whatever comes back; what is not answered in the end is left alone."""

    async def send(client: httpx.AsyncClient, text: str) -> None:
        body = {"q": text, "source": "en", "target": "de"}  # auto would refuse the languages of other models
        try:
            statuses[(await client.post("/translate", json=body)).status_code] += 1
        except httpx.HTTPError:
            statuses[0] += 1

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60.0, limits=limits) as client:
        begin, tasks = time.monotonic(), []
        for number, text in enumerate(texts):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(send(client, text)))
        _, pending = await asyncio.wait(tasks, timeout=5.0)
        for task in pending:
            task.cancel()
        statuses[0] += len(pending)


async def do_nothing() -> None:
    pass


def run(seconds: float, rate: float, hostile: float, broken: str = "") -> dict[str, float]:
    statuses: Counter[int] = Counter()
    many = [text for seed in range(round(hostile * seconds / KINDS) + 1) for text in hostile_texts(seed)]
    texts = many[: round(hostile * seconds)]
    with start_service("demo", *(WITHOUT_CAPS if broken else ()), broken=broken) as service:
        asyncio.run(send_at_rate(service.url, rate, 3.0, do_nothing, ORDINARY))  # warm
        idle = asyncio.run(send_at_rate(service.url, rate, seconds, do_nothing, ORDINARY))
        attack = partial(send_hostile, service.url, texts, hostile, statuses)
        came = asyncio.run(send_at_rate(service.url, rate, seconds, attack, ORDINARY))
        events = Counter(one["event"] for one in service.log)
    answered = [one.seconds for one in came if one.status == 200]
    return {
        "requests": len(came),
        "answered_share": round(len(answered) / len(came), 4),
        "idle_answered_share": round(sum(one.status == 200 for one in idle) / len(idle), 4),
        "idle_p99_ms": round(1000 * percentile([one.seconds for one in idle if one.status == 200], 99), 1),
        "p50_ms": round(1000 * percentile(answered, 50), 1) if answered else -1,
        "p99_ms": round(1000 * percentile(answered, 99), 1) if answered else -1,
        "engines_killed": events["engine lost"] + events["engine does not answer"],
        "hostile": statuses.total(),
        "hostile_answered": statuses[200],
        "hostile_too_large": statuses[413],
        "hostile_other": statuses.total() - statuses[200] - statuses[413],
    }


def what_fails(values: dict[str, float]) -> list[str]:
    """The names of what does not hold."""
    held = {
        "answered_share": values["answered_share"] >= 0.99,
        "p99_ms": 0 <= values["p99_ms"] <= 3 * values["idle_p99_ms"],
        "engines_killed": values["engines_killed"] == 0,
    }
    return [name for name, good in held.items() if not good]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=5.0, help="ordinary requests a second")
    parser.add_argument("--hostile", type=float, default=5.0, help="hostile requests a second")
    parser.add_argument("--without-caps", action="store_true", help="as it would be if all text were translated")
    given = parser.parse_args()
    values = run(given.seconds, given.rate, given.hostile, NO_CAPS if given.without_caps else "")
    print("does not hold:", ", ".join(what_fails(values)) or "nothing")
    print(json.dumps({"bench": "exhaustion", "values": values}))
    raise SystemExit(bool(what_fails(values)))


if __name__ == "__main__":
    main()
