"""Streams of server-sent events, read by a real client from a running service."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_harness import ServiceHarness
from service_process import ServiceProcess, start_service, wait_until

from dragoman.serving.keys import add_key

pytestmark = pytest.mark.slow

STATION = "Where is the station?"
TEXT = f"  {STATION} It is behind the church.\n\n- Two dogs.\n"
LONG = "\n".join(f"The {number} old houses behind the station were sold by the church." for number in range(150))

Event = tuple[str, dict[str, Any]]


def read_events(response: httpx.Response) -> Iterator[Event]:
    name = ""
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    return {"shop": add_key("shop", file, characters_per_day=100_000), "file": str(file)}


@pytest.fixture(scope="module")
def service(keys: dict[str, str]) -> Iterator[ServiceProcess]:
    with start_service("demo", "--engines", "1", "--limit", "wait=60", "--keys", keys["file"]) as running:
        yield running


@pytest.fixture
def client(service: ServiceProcess, keys: dict[str, str]) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {keys['shop']}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as opened:
        yield opened


def used(client: httpx.Client) -> int:
    count: int = client.get("/v2/usage").json()["character_count"]
    return count


def test_sentences_come_in_order_and_the_end_is_the_plain_answer(client: httpx.Client) -> None:
    request = {"texts": [TEXT, "", STATION], "alignment": True, "glossary": {"church": "Dom"}}
    plain = client.post("/v1/translate", json=request).json()
    with client.stream("POST", "/v1/translate", json={**request, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(read_events(response))
    *sentences, (last, done) = events
    assert [name for name, _ in sentences] == ["sentence"] * 4
    assert (last, done) == ("done", plain)
    places = [(one["text_index"], one["sentence_index"]) for _, one in sentences]
    assert places == [(0, 0), (0, 1), (0, 2), (2, 0)]
    for number in (0, 2):
        deltas = [one["delta"] for _, one in sentences if one["text_index"] == number]
        assert "".join(deltas) == plain["translations"][number]["text"]
    fields = [{name: one[name] for name in plain["translations"][2]["sentences"][0]} for _, one in sentences]
    assert fields == [one for text in plain["translations"] for one in text["sentences"]]


def test_the_accept_header_asks_for_a_stream_too(client: httpx.Client) -> None:
    headers = {"accept": "text/event-stream"}
    with client.stream("POST", "/v1/translate", json={"texts": STATION}, headers=headers) as response:
        assert [name for name, _ in read_events(response)] == ["sentence", "done"]


def test_the_first_sentence_comes_long_before_the_last(client: httpx.Client) -> None:
    begin = time.monotonic()
    with client.stream("POST", "/v1/translate", json={"texts": LONG, "stream": True}) as response:
        times = [time.monotonic() - begin for _ in read_events(response)]
    assert len(times) == 151
    assert times[0] < times[-1] / 2


def test_a_client_that_leaves_ends_the_work_and_pays_for_what_it_got(
    client: httpx.Client, service: ServiceProcess
) -> None:
    before = used(client)
    with client.stream("POST", "/v1/translate", json={"texts": LONG, "stream": True}) as response:
        next(read_events(response))
        identity = response.headers["x-request-id"]

    def logged() -> list[dict[str, Any]]:
        return [event for event in service.log if event.get("id") == identity]

    (event,) = wait_until(logged, 30)
    assert event["status"] == 499
    begin = time.monotonic()
    assert client.post("/v1/translate", json={"texts": STATION}).status_code == 200
    assert time.monotonic() - begin < 20
    assert 0 < used(client) - before < len(LONG) / 2


def test_a_stream_that_cannot_begin_is_refused_as_usual(client: httpx.Client) -> None:
    for request, status in (({"texts": "a", "target": "fr"}, 404), ({"texts": "a " * 20_000}, 413)):
        before = used(client)
        response = client.post("/v1/translate", json={**request, "stream": True})
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
        assert used(client) == before


def test_an_error_in_the_middle_is_an_event(small: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines are gone, so nothing answers before the timeout."""
    monkeypatch.setattr(small.service, "limits", small.limits.model_copy(update={"seconds": 0.2}))
    monkeypatch.setattr(small.dispatcher, "put", lambda sentences: None)
    answer = small.post("/v1/translate", texts="two red dogs.", stream=True)
    name, data = answer.text.split("\n")[:2]
    assert (answer.status_code, name) == (200, "event: error")
    assert json.loads(data.removeprefix("data: "))["status"] == 503
    assert small.log[-1]["refused"] == "busy"


def test_keys_are_charged_for_all_that_was_sent(client: httpx.Client, tmp_path: Path) -> None:
    before = used(client)
    with client.stream("POST", "/v1/translate", json={"texts": TEXT, "stream": True}) as response:
        list(read_events(response))
    assert used(client) - before == len(TEXT)
