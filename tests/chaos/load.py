"""Requests at a fixed rate, whatever comes back, and the result of each."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import httpx

TEXTS = (
    "Where is the station?",
    "I would like a cup of tea.",
    "The children are playing in the garden.",
    "She has never been to Berlin before.",
    "Can you tell me what time it is?",
    "We will come back tomorrow.",
    "My brother works in a hospital.",
    "It has been raining all day.",
)


class RequestResult(NamedTuple):
    """The result of one request."""

    text: str
    status: int
    """0 if the connection failed."""
    translation: str
    sha256: str
    at: float
    """When it was sent, by the monotonic clock."""
    seconds: float
    retry_after: bool


async def ask(client: httpx.AsyncClient, text: str) -> RequestResult:
    """Translate one text by LibreTranslate's route."""
    begin = time.monotonic()
    try:
        answer = await client.post("/translate", json={"q": text, "source": "en", "target": "de"})
    except httpx.HTTPError as error:
        return RequestResult(text, 0, repr(error), "", begin, time.monotonic() - begin, False)
    translation = (
        answer.json().get("translatedText", "") if answer.headers["content-type"] == "application/json" else ""
    )
    sha256 = answer.headers.get("x-model-sha256", "")
    taken = time.monotonic() - begin
    return RequestResult(text, answer.status_code, translation, sha256, begin, taken, "retry-after" in answer.headers)


async def send_at_rate(
    url: str, rate: float, seconds: float, meanwhile: Callable[[], Awaitable[None]], texts: Sequence[str] = TEXTS
) -> list[RequestResult]:
    """Send so many requests a second, while something is done to the service."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(base_url=url, timeout=60.0, limits=limits) as client:
        other = asyncio.create_task(meanwhile())
        begin, tasks = time.monotonic(), []
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(ask(client, texts[number % len(texts)])))
        found = await asyncio.gather(*tasks)
        await other
    return found


async def translate_alone(url: str, texts: Sequence[str] = TEXTS) -> dict[str, str]:
    """Return the translation of each text sent alone."""
    async with httpx.AsyncClient(base_url=url, timeout=60.0) as client:
        return {text: (await ask(client, text)).translation for text in texts}


def percentile(values: Sequence[float], part: int) -> float:
    """By the nearest rank; of one value, itself."""
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1] if len(values) > 1 else values[0]
