"""Who may come in, and what is done for those who have gone."""

import asyncio
import os
import signal
from typing import Any

import pytest
from fastapi import Request
from house import House, until

from dragoman.serving.door import unless_gone
from dragoman.serving.keys import Key, new_key

KEY, SHA256 = new_key()
KNOWN = [Key(name="shop", sha256=SHA256)]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY} "},
        {"x-api-key": KEY},
        {"authorization": "Basic YTpi", "x-api-key": KEY},
    ],
)
def test_a_key_is_taken_from_the_head(idle: House, headers: dict[str, str]) -> None:
    answer = idle.ask("GET", "/v1/models", idle.another(KNOWN), headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"models": []})
    assert idle.log[-1]["key"] == "shop"
    assert KEY not in idle.log_text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": KEY},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": f"Bearer {KEY}x", "x-api-key": KEY},
        {"x-api-key": KEY[:-1]},
        {"x-api-key": ""},
        {"cookie": f"api_key={KEY}"},
    ],
)
@pytest.mark.parametrize(
    "route", ["GET /v1/models", "POST /v1/translate", "POST /translate", "POST /detect", "GET /languages"]
)
def test_without_a_key_nobody_is_let_in(idle: House, headers: dict[str, str], route: str) -> None:
    method, path = route.split()
    content = {"texts": "a", "q": "a", "source": "en", "target": "de"}
    if path == "/v1/translate":
        content = {"texts": "a"}
    answer = idle.ask(method, path, idle.another(KNOWN), headers=headers, json=content, params={"api_key": KEY})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert idle.log[-1]["refused"] == "unknownkey"
    assert KEY not in answer.text


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json"])
def test_what_tells_of_the_service_needs_a_key_too(idle: House, path: str) -> None:
    app = idle.another(KNOWN)
    assert idle.ask("GET", path, app).status_code == 401
    assert idle.ask("GET", path, app, headers={"x-api-key": KEY}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/health", "/health/live", "/health/ready"])
def test_the_page_and_the_health_are_for_all(idle: House, path: str) -> None:
    assert idle.ask("GET", path, idle.another(KNOWN)).status_code in (200, 503)


def test_there_is_no_other_route(idle: House) -> None:
    """Whoever adds one decides here whether it needs a key."""
    app = idle.another(KNOWN)
    document = idle.ask("GET", "/openapi.json", app, headers={"x-api-key": KEY}).json()
    assert sorted(document["paths"]) == [
        "/detect",
        "/health",
        "/health/live",
        "/health/ready",
        "/languages",
        "/metrics",
        "/translate",
        "/v1/models",
        "/v1/translate",
    ]
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/static/x", "/v1", "/v1/"):
        assert idle.ask("GET", path, app).status_code == 404


def request(gone: asyncio.Event) -> Request:
    """One whose sender leaves when told to."""

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


def test_work_is_done_for_who_is_there_and_its_failure_is_theirs() -> None:
    async def work() -> None:
        async def made() -> int:
            await asyncio.sleep(0.01)
            return 7

        async def fails() -> int:
            raise ValueError("no")

        here = request(asyncio.Event())
        assert await unless_gone(here, made()) == 7
        with pytest.raises(ValueError, match="no"):
            await unless_gone(here, fails())

    asyncio.run(work())


@pytest.mark.parametrize("who", ["the one who asked", "the server"])
def test_work_is_stopped_when_somebody_leaves(who: str) -> None:
    async def work() -> None:
        gone, stopped = asyncio.Event(), asyncio.Event()

        async def long() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.set()

        task = asyncio.create_task(unless_gone(request(gone), long()))
        await asyncio.sleep(0.01)
        assert not stopped.is_set()
        if who == "the server":
            task.cancel()
        else:
            gone.set()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.wait_for(stopped.wait(), 60)

    asyncio.run(work())


async def abandoned(house: House, path: str, body: bytes) -> None:
    """A request whose sender hangs up once it waits in the queue."""
    first = True

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        await until(lambda: house.dispatcher.waiting.number == 2)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"answered: {message}")

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers}
    scope |= {"query_string": b"", "scheme": "http", "server": ("localhost", 80), "root_path": ""}
    with pytest.raises(asyncio.CancelledError):
        await house.app(scope, receive, send)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/translate", b'{"texts": ["two red dogs.", "ten old houses."]}'),
        ("/translate", b'{"q": ["two red dogs.", "ten old houses."], "source": "en", "target": "de"}'),
    ],
)
def test_the_sentences_of_who_hangs_up_leave_the_queue(small: House, path: str, body: bytes) -> None:
    async def work() -> None:
        (engine,) = small.crew.engines
        os.kill(engine.process.pid, signal.SIGSTOP)
        other = asyncio.create_task(small.service.translate(["four green women."], small.wish()))
        await until(lambda: engine.batches)
        task = asyncio.create_task(abandoned(small, path, body))
        await task
        assert small.dispatcher.waiting.number == 0
        os.kill(engine.process.pid, signal.SIGCONT)
        (found,) = await other
        assert found.text == "vier grüne Frauen."

    before = len(small.log)
    small.run(work())
    (line,) = small.log[before:]
    assert (line["status"], line["route"], line["texts"]) == (499, path, 2)
