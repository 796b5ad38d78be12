"""Authentication of requests, and the end of work for clients that disconnect."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import Request
from service_harness import ServiceHarness, until

from dragoman.serving.errors import OverloadedError, QuotaError
from dragoman.serving.keys import ApiKey, KeyUsage, generate_key
from dragoman.serving.service import RequestContext, cancel_on_disconnect

KEY, SHA256 = generate_key()
KNOWN = [ApiKey(name="shop", sha256=SHA256)]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY} "},
        {"x-api-key": KEY},
        {"authorization": "Basic YTpi", "x-api-key": KEY},
    ],
)
def test_a_key_is_read_from_the_headers(idle: ServiceHarness, headers: dict[str, str]) -> None:
    answer = idle.request("GET", "/v1/models", idle.create_app(KNOWN), headers=headers)
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
@pytest.mark.parametrize("route", ["GET /v1/models", "POST /v1/translate", "POST /translate", "POST /detect"])
def test_requests_without_a_known_key_are_rejected(idle: ServiceHarness, headers: dict[str, str], route: str) -> None:
    method, path = route.split()
    content = {"texts": "a", "q": "a", "source": "en", "target": "de"}
    if path == "/v1/translate":
        content = {"texts": "a"}
    answer = idle.request(method, path, idle.create_app(KNOWN), headers=headers, json=content, params={"api_key": KEY})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert idle.log[-1]["refused"] == "unknownkey"
    assert KEY not in answer.text


DEEPL = [
    *("POST /v2/translate", "GET /v2/usage", "POST /v2/usage", "GET /v2/languages", "POST /v2/languages"),
    *("GET /v2/glossary-language-pairs", "GET /v2/glossaries", "POST /v2/glossaries", "GET /v2/glossaries/a"),
    *("DELETE /v2/glossaries/a", "GET /v2/glossaries/a/entries", "GET /v3/glossaries", "POST /v3/glossaries"),
    *("GET /v3/glossaries/a", "PATCH /v3/glossaries/a", "DELETE /v3/glossaries/a", "PUT /v3/glossaries/a/dictionaries"),
    *("GET /v3/glossaries/a/entries?source_lang=en&target_lang=de",),
    *("DELETE /v3/glossaries/a/dictionaries?source_lang=en&target_lang=de",),
]


@pytest.mark.parametrize("route", DEEPL)
def test_every_route_of_deepl_needs_a_key(idle: ServiceHarness, route: str) -> None:
    method, path = route.split()
    terms = {"source_lang": "en", "target_lang": "de", "entries": "a\tb"}
    content = {"text": "a", "name": "a", "dictionaries": [terms], **terms}
    app = idle.create_app(KNOWN)
    for headers in ({}, {"authorization": f"DeepL-Auth-Key {KEY}x"}):
        answer = idle.request(method, path, app, headers=headers, json=content)
        assert (answer.status_code, list(answer.json())) == (403, ["message"])
    known = idle.request(method, path, app, headers={"authorization": f"DeepL-Auth-Key {KEY}"}, json=content)
    assert known.status_code != 403


@pytest.mark.parametrize(("path", "status"), [("/metrics", 403), ("/openapi.json", 200)])
def test_metrics_and_openapi_need_a_key_too(idle: ServiceHarness, path: str, status: int) -> None:
    app = idle.create_app(KNOWN)
    assert idle.request("GET", path, app).status_code == 401
    assert idle.request("GET", path, app, headers={"x-api-key": KEY}).status_code == status


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/health", "/health/live", "/health/ready"])
def test_page_and_health_need_no_key(idle: ServiceHarness, path: str) -> None:
    assert idle.request("GET", path, idle.create_app(KNOWN)).status_code in (200, 503)


def test_there_is_no_other_route(idle: ServiceHarness) -> None:
    """A new route is added here after deciding whether it needs a key."""
    app = idle.create_app(KNOWN)
    document = idle.request("GET", "/openapi.json", app, headers={"x-api-key": KEY}).json()
    assert sorted(document["paths"]) == [
        "/detect",
        "/download_file/{name}",
        "/frontend/settings",
        "/health",
        "/health/live",
        "/health/ready",
        "/languages",
        "/metrics",
        "/translate",
        "/translate_file",
        "/v1/models",
        "/v1/translate",
        "/v2/glossaries",
        "/v2/glossaries/{glossary_id}",
        "/v2/glossaries/{glossary_id}/entries",
        "/v2/glossary-language-pairs",
        "/v2/languages",
        "/v2/translate",
        "/v2/usage",
        "/v3/glossaries",
        "/v3/glossaries/{glossary_id}",
        "/v3/glossaries/{glossary_id}/dictionaries",
        "/v3/glossaries/{glossary_id}/entries",
    ]
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect", "/static/x", "/v1", "/v1/"):
        assert idle.request("GET", path, app).status_code == 404


def request(gone: asyncio.Event) -> Request:
    """Return a request whose client disconnects at an event."""

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


def test_work_returns_its_result_or_raises_its_error() -> None:
    async def work() -> None:
        async def made() -> int:
            await asyncio.sleep(0.01)
            return 7

        async def fails() -> int:
            raise ValueError("no")

        here = request(asyncio.Event())
        assert await cancel_on_disconnect(here, made()) == 7
        with pytest.raises(ValueError, match="no"):
            await cancel_on_disconnect(here, fails())

    asyncio.run(work())


@pytest.mark.parametrize("cause", ["client", "server"])
def test_work_is_cancelled_when_client_or_server_leaves(cause: str) -> None:
    async def work() -> None:
        gone, stopped = asyncio.Event(), asyncio.Event()

        async def long() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.set()

        task = asyncio.create_task(cancel_on_disconnect(request(gone), long()))
        await asyncio.sleep(0.01)
        assert not stopped.is_set()
        if cause == "server":
            task.cancel()
        else:
            gone.set()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.wait_for(stopped.wait(), 60)

    asyncio.run(work())


async def abandoned(harness: ServiceHarness, path: str, body: bytes) -> None:
    """Send a request whose client disconnects once it waits in the queue."""
    first = True

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        await until(lambda: harness.dispatcher.queue.length == 2)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"answered: {message}")

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": headers}
    scope |= {"query_string": b"", "scheme": "http", "server": ("localhost", 80), "root_path": ""}
    with pytest.raises(asyncio.CancelledError):
        await harness.app(scope, receive, send)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/translate", b'{"texts": ["two red dogs.", "ten old houses."]}'),
        ("/translate", b'{"q": ["two red dogs.", "ten old houses."], "source": "en", "target": "de"}'),
    ],
)
def test_sentences_of_a_disconnected_client_leave_the_queue(small: ServiceHarness, path: str, body: bytes) -> None:
    async def work() -> None:
        (engine,) = small.pool.engines
        os.kill(engine.process.pid, signal.SIGSTOP)
        other = asyncio.create_task(small.service.translate(["four green women."], small.options()))
        await until(lambda: engine.batches)
        task = asyncio.create_task(abandoned(small, path, body))
        await task
        assert small.dispatcher.queue.length == 0
        os.kill(engine.process.pid, signal.SIGCONT)
        (found,) = await other
        assert found.text() == "vier grüne Frauen."

    before = len(small.log)
    small.run(work())
    (line,) = small.log[before:]
    assert (line["status"], line["route"], line["texts"]) == (499, path, 2)


@pytest.mark.parametrize("path", ["/v1/translate", "/translate", "/detect"])
@pytest.mark.parametrize("key", ["wrong", None])
def test_a_wrong_key_is_refused_before_the_body_is_read(idle: ServiceHarness, path: str, key: str | None) -> None:
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"{"

    headers = {"x-api-key": key} if key else {}
    answer = idle.request("POST", path, idle.create_app(KNOWN), content=body(), headers=headers)
    if key or path.startswith("/v1/"):
        assert (answer.status_code, read) == (401, [])
    else:  # the key may be in the body
        assert (answer.status_code, read) == (400, [1])


def test_many_wrong_keys_of_an_address_are_throttled_and_the_right_one_is_not(idle: ServiceHarness) -> None:
    app = idle.create_app(KNOWN)
    statuses = [idle.request("GET", "/v1/models", app, headers={"x-api-key": "no"}) for _ in range(40)]
    assert [answer.status_code for answer in statuses] == [401] * 30 + [429] * 10
    assert 0 < int(statuses[-1].headers["retry-after"]) <= 60
    assert idle.request("GET", "/v1/models", app, headers={"x-api-key": KEY}).status_code == 200
    assert idle.request("GET", "/v1/models", app).status_code == 401  # no key is no guess


@pytest.mark.slow
def test_only_answers_are_charged(small: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    app = small.create_app([ApiKey(name="shop", sha256=SHA256, requests_per_minute=2, characters_per_day=20)])

    def status(text: str) -> int:
        headers = {"x-api-key": KEY}
        return small.request("POST", "/v1/translate", app, json={"texts": text}, headers=headers).status_code

    with monkeypatch.context() as patched:
        patched.setattr(small.dispatcher, "admit", _refuse)
        assert [status("two red dogs.") for _ in range(5)] == [503] * 5
    assert [status("two red dogs and more than that") for _ in range(5)] == [429] * 5
    assert [status("two red dogs."), status("dogs.")] == [200, 200]
    assert status("a") == 429


@pytest.mark.parametrize(
    ("error", "requests_left"), [(None, 0), (OverloadedError("full"), 1), (asyncio.CancelledError(), 0)]
)
def test_a_client_that_leaves_has_used_a_request_but_no_characters(
    idle: ServiceHarness, error: BaseException | None, requests_left: int
) -> None:
    usage = KeyUsage(ApiKey(name="shop", sha256=SHA256, requests_per_minute=1, characters_per_day=9), lambda: 0.0)

    async def work() -> None:
        with contextlib.suppress(OverloadedError, asyncio.CancelledError):
            async with RequestContext(idle.service, request(asyncio.Event()), usage).charge(5):
                if error:
                    raise error

    idle.run(work())
    assert usage.characters_today == (0 if error else 5)
    with contextlib.nullcontext() if requests_left else pytest.raises(QuotaError):
        usage.count(1)


def _refuse(_: int) -> None:
    raise OverloadedError("full: try again later", 1.0)
