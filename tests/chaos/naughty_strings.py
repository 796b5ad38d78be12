"""Send strings that break things, each in one batch with seven good sentences: nobody may be hurt by them.

    python tests/chaos/naughty_strings.py [--every 1]

The strings are the 515 of the Big List of Naughty Strings ($DRAGOMAN_DATA/naughty/blns.json, where it is there) and our
own, below. Each is sent together with seven neighbours, within the moment in which the service merges what comes
in, and in turn as LibreTranslate's clients ask, with tokens, and with protection. Then ours come once more as a prefix,
as a model's name and as a language. No answer may be a 500, no engine may end, and every neighbour must get what it got
alone. Prints one JSON line. --careless is the inverse: nothing is refused before it is batched, and a batch that fails
is not taken apart.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

import httpx
from service_process import ServiceProcess, start_service

# ruff: noqa: RUF001

NEIGHBOURS: Final = (
    "Where is the station?",
    "The dog sleeps under the table.",
    "I have never seen such a large house.",
    "Two women are walking along the beach.",
    "He did not want to wait any longer.",
    "How much does this book cost?",
    "It will rain tomorrow.",
    "She gave him the letter that her mother had written.",
    "We are going home now.",
    "A man in a red shirt is playing the guitar.",
    "Do you know what time it is?",
)
TOGETHER: Final = 7
CUT_OFF: Final = 599
"""For no answer at all, which is as bad as a 500."""

OURS: Final = (
    # Halves of characters: valid in JSON, not in UTF-8.
    *("\ud800", "\udfff", "a\ud83d b", "\udc00\ud800", "good text \udbff\n", "\ud800" * 500),
    # Controls.
    *("\0", "a\0b", "\0" * 300, "\x01\x02\x03\x1b[31mred\x1b[0m", "\x7f\x80\x9f", "\x1a\x04", "a\x08\x08b"),
    *("\r\r\r", "\x85\x0b\x0c"),
    # What turns writing around, and what nobody sees.
    *("\u202e desrever \u202c", "\u2066\u2067\u2068\u2069", "\u200b", "\u200b" * 400, "wo\u00adrd\u2060s"),
    *("\ufeff\ufeff", "\u034f\u061c\u115f\u3164"),
    # Piles of marks.
    *("e" + "\u0301" * 30, "Z\u0351\u036b\u0343\u036a\u0302a\u0328l\u0334g\u0321o\u0358 text", "\u0301"),
    *("\u0e47" * 60, "\U000e0061" * 20),
    # Nothing, and nothing but space.
    *("", " ", " " * 5000, "\t\t\t", "\n\n\n\n", "\u3000\u2003\u00a0", "\u2028\u2029"),
    # What the vocabulary knows by other names.
    *("</s>", "<s>", "<unk>", "<pad>", "▁", "▁▁▁▁", "<s> </s> <pad> <unk>", "a</s>b", "<0x00>", "<2de>", "▁</s>" * 20),
    # Quotes and brackets without their others.
    *('"', "'''", "((((((((", "„“”‚‘’«»", "{{{{", "[" * 3000, "\\", "\\u0000", '{"texts": "'),
    # Emoji of several parts, and writing from right to left.
    *("👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈" * 10, "🇩🇪🇩", "👍🏿", "1\ufe0f\u20e3", "\u200d" * 50),
    *("\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627\u060c \u061f", "\u05d0" * 60),
    # Of nobody, of no character, of far planes, of other writings.
    *("\ue000\uf8ff", "\U000f0000\U0010ffff", "\ufffe\uffff", "\ufffd" * 30, "𝕳𝖊𝖑𝖑𝖔", "你好。世界！"),
    *("\u0e01" * 60, "\ufdfa" * 20),
    # What other programs would run.
    *("{{7*7}} ${7*7} #{7*7} <%= 7*7 %>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
    *("'; DROP TABLE users; --", "1 OR 1=1", "$(touch /tmp/x); `id` | sh && reboot", "../../../etc/passwd\0.png"),
    *("%s%n%p%x", "{0.__class__.__mro__}", "__import__('os').system('id')", "!!python/object/apply:os.system ['id']"),
    # Long ones.
    *("word " * 4_000, "Is it? " * 2_800, "." * 20_000, "9" * 20_000, "x\n" * 10_000, "Ein Satz. " * 2_000),
    *("|" * 5_000, "a|b|" * 20, "http://" + "a" * 15_000, "<b>" * 6_000, "Donau" * 50, "a" * 20_001),
    # Numbers.
    *("0", "-1", "1e309", "NaN", "Infinity", "00000000000000000000001", "0x7fffffffffffffff", "٣٫١٤", "½ ⅞ Ⅳ", "1/0"),
)

HEAVY: Final = ("a" * 20_000, "Donau" * 999, "\u05d0" * 800, "e" + "\u0301" * 300)
"""Words that are hundreds of pieces long. Each keeps an engine for seconds, so the short form leaves them out."""

CARELESS: Final = """
import json
import dragoman.serving.service as service
import dragoman.serving.engine_protocol as engine_protocol

def encode_message(message):
    return json.dumps(message).encode() + b"\\n"

engine_protocol.encode_message = encode_message
import dragoman.serving.engine_pool as engine_pool
import dragoman.serving.model_worker as model_worker

engine_pool.encode_message = encode_message
service.Service.check_texts = lambda self, texts, prefix="", most_characters=None: None
model_worker.isolate_errors = lambda work, texts: work(texts)
"""

WAYS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("/translate", {"source": "en", "target": "de"}),
    ("/v1/translate", {"tokens": True}),
    ("/v1/translate", {"protect": True}),
)


def strings(every: int) -> tuple[list[str], int]:
    """All that is sent, and how many of them are from the list."""
    file = Path(os.environ.get("DRAGOMAN_DATA", ".")) / "naughty" / "blns.json"
    listed = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    listed = listed[::every]
    return [*listed, *(HEAVY if every == 1 else ()), *OURS], len(listed)


class Sender:
    """Asks, and keeps count of what comes back."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.statuses: dict[int, int] = {}
        self.bad: list[str] = []
        self.solo: dict[tuple[int, str], str] = {}
        self.hurt = 0

    async def ask(self, path: str, body: dict[str, Any]) -> httpx.Response:
        content = json.dumps(body).encode()  # half a character as an escape, which is how it gets in
        try:
            return await self.client.post(path, content=content, headers={"content-type": "application/json"})
        except httpx.TransportError as error:
            return httpx.Response(CUT_OFF, text=repr(error))

    async def text(self, way: int, text: str) -> tuple[int, str]:
        path, more = WAYS[way]
        answer = await self.ask(path, {"q" if path == "/translate" else "texts": text, **more})
        return answer.status_code, translated(answer.json()) if answer.status_code == 200 else answer.text

    async def alone(self) -> None:
        for way in range(len(WAYS)):
            for text in NEIGHBOURS:
                status, self.solo[way, text] = await self.text(way, text)
                assert status == 200, self.solo[way, text]

    async def together(self, number: int, naughty: str) -> None:
        """The bad one in the middle of the good ones."""
        way = number % len(WAYS)
        texts = [NEIGHBOURS[(number + place) % len(NEIGHBOURS)] for place in range(TOGETHER)]
        middle = TOGETHER // 2
        batch = [*texts[:middle], naughty, *texts[middle:]]
        found = await asyncio.gather(*(self.text(way, text) for text in batch))
        self.count(found.pop(middle)[0], naughty)
        self.hurt += sum(answer != (200, self.solo[way, text]) for text, answer in zip(texts, found, strict=True))

    async def elsewhere(self, naughty: str) -> None:
        for more in ({"prefix": naughty}, {"model": naughty}, {"source": naughty, "target": naughty}):
            self.count((await self.ask("/v1/translate", {"texts": NEIGHBOURS[0], **more})).status_code, naughty)
        languages = {"q": NEIGHBOURS[0], "source": naughty, "target": naughty, "format": naughty, "api_key": naughty}
        self.count((await self.ask("/translate", languages)).status_code, naughty)
        self.count((await self.ask("/detect", {"q": naughty})).status_code, naughty)

    def count(self, status: int, naughty: str) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status >= 500:
            self.bad.append(f"{status} {naughty[:40]!a}")


def translated(answer: dict[str, Any]) -> str:
    """The text, and every token where requested: the whole of a neighbour's answer must be its own."""
    if "translatedText" in answer:
        return str(answer["translatedText"])
    (found,) = answer["translations"]
    pieces = [[token["piece"] for token in sentence.get("tokens", ())] for sentence in found["sentences"]]
    return json.dumps([found["text"], pieces])


def figure(metrics: str, name: str) -> float:
    return next(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(f"{name} "))


async def send_all(service: ServiceProcess, naughty: list[str], own: int) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=TOGETHER + 1)
    async with httpx.AsyncClient(base_url=service.url, limits=limits, timeout=None) as client:
        sender, engines = Sender(client), service.engines()
        await sender.alone()
        before = (await client.get("/metrics")).text
        for number, text in enumerate(naughty):
            await sender.together(number, text)
        after = (await client.get("/metrics")).text
        for text in naughty[-own:]:
            await sender.elsewhere(text)
        restarts = figure((await client.get("/metrics")).text, "dragoman_engine_restarts_total")
    batches = figure(after, "dragoman_batch_sentences_count") - figure(before, "dragoman_batch_sentences_count")
    return {
        "answered": sender.statuses.get(200, 0),
        "refused": sum(number for status, number in sender.statuses.items() if 400 <= status < 500),
        "errors_500": len(sender.bad),
        "bad": sender.bad[:5],
        "engines_lost": int(restarts) + (service.engines() != engines),
        "neighbours": TOGETHER * len(naughty),
        "neighbours_hurt": sender.hurt,
        "batches_each": round(batches / len(naughty), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--every", type=int, default=1, help="of the list, only every so many, and none of the heaviest"
    )
    parser.add_argument("--ours", type=int, default=len(OURS), help="how many of ours, the first ones")
    parser.add_argument("--careless", action="store_true", help="without the protection: this must fail")
    wanted = parser.parse_args()
    naughty, listed = strings(wanted.every)
    naughty = naughty[: len(naughty) - len(OURS) + wanted.ours]
    patient = ("merge_ms=100", "batch_tokens=100000", "wait=3000", "seconds=3000", "engine_seconds=3000")
    arguments = ["demo", "--engines", "1", *(word for limit in patient for word in ("--limit", limit))]
    with start_service(*arguments, broken=CARELESS if wanted.careless else "") as service:
        values = asyncio.run(send_all(service, naughty, wanted.ours))
    skipped = {} if listed else {"skipped": "the list is not there: set DRAGOMAN_DATA"}
    values = {"listed": listed, "ours": wanted.ours, **values, **skipped}
    print(json.dumps({"bench": "naughty", "values": values}))
    held = not values["errors_500"] and not values["engines_lost"] and not values["neighbours_hurt"]
    raise SystemExit(not held or values["batches_each"] > 2)  # else they were not together


if __name__ == "__main__":
    main()
