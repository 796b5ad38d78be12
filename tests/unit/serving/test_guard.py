"""What surrounds every request: its size, its host, the headers of its answer, and a log without a word of it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from house import House, asked
from starlette.types import Receive, Scope, Send

from dragoman.serving.guard import SECURITY, Guard
from dragoman.serving.limits import Limits
from dragoman.serving.refusal import BusyError
from dragoman.serving.run import LOOPBACK_NAMES

SMALL = Limits(body_bytes=2048)
SECRET = "Zwetschgenknödel"


async def parts(given: list[int], number: int = 64, size: int = 1024) -> AsyncIterator[bytes]:
    """A body without a length in its head; what was asked for of it is written down."""
    for _ in range(number):
        given.append(size)
        yield b"x" * size


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect", "/nothing"])
def test_a_head_that_announces_too_much_is_refused_and_none_of_it_is_read(idle: House, path: str) -> None:
    read: list[int] = []
    app = idle.another(limits=SMALL)
    answer = idle.ask("POST", path, app, content=parts(read), headers={"content-length": "65536"})
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert read == []
    said = answer.json()
    detail = said["detail"] if path.startswith("/v1/") else said["error"]
    assert detail == "a body of at most 2,048 bytes is taken"


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_who_would_wait_too_long_is_sent_away_before_the_request_is_read(
    idle: House, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def knock() -> None:
        raise BusyError("70 sentences wait: come again", 1.5)

    monkeypatch.setattr(idle.dispatcher, "knock", knock)
    read: list[int] = []
    answer = idle.ask("POST", path, content=parts(read, 2), headers={"content-length": "2048"})
    assert (answer.status_code, answer.headers["retry-after"], read) == (503, "2", [])
    said = answer.json()
    assert "70 sentences wait" in (said["detail"] if path.startswith("/v1/") else said["error"])
    assert idle.log[-1]["route"] == path
    assert idle.log[-1]["refused"] == "busy"
    assert idle.ask("GET", "/v1/models").status_code == 200  # what costs nothing is answered


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/health/live", "/health/ready"])
def test_a_crowd_is_told_when_to_come_again_but_whoever_watches_is_answered(idle: House, path: str) -> None:
    async def crowded(scope: Scope, receive: Receive, send: Send) -> None:
        await idle.app({**scope, "crowded": True}, receive, send)

    answer = idle.ask("GET" if "health" in path else "POST", path, crowded)
    if "health" in path:
        assert answer.json()["status"] in ("ok", "starting")  # as it is
    else:
        assert (answer.status_code, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
        assert "too many connections" in answer.text


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect"])
def test_a_body_that_grows_too_large_is_refused_and_not_read_to_its_end(idle: House, path: str) -> None:
    read: list[int] = []
    headers = {"content-type": "application/json", "transfer-encoding": "chunked"}
    answer = idle.ask("POST", path, idle.another(limits=SMALL), content=parts(read), headers=headers)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert sum(read) <= 2048 + 1024
    kind = "application/problem+json" if path.startswith("/v1/") else "application/json"
    assert answer.headers["content-type"] == kind


def test_a_head_that_lies_does_not_help(idle: House) -> None:
    read: list[int] = []
    answer = idle.ask(
        "POST", "/translate", idle.another(limits=SMALL), content=parts(read), headers={"content-length": "5"}
    )
    assert answer.status_code == 413
    assert sum(read) <= 2048 + 1024


def test_a_body_as_large_as_the_limit_is_taken(idle: House) -> None:
    body = b'{"q": "' + b" " * (2048 - 9) + b'"}'
    assert len(body) == 2048
    for content, status in ((body, 400), (body[:7] + b" " + body[7:], 413)):
        answer = idle.ask("POST", "/translate", idle.another(limits=SMALL), content=content)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:5000", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:5000", "localhost:"]
)
def test_on_this_machine_alone_it_answers_under_its_own_names(idle: House, host: str) -> None:
    app = idle.another(hosts=LOOPBACK_NAMES)
    assert idle.ask("GET", "/health/live", app, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["example.org", "localhost.example.org", "127.0.0.1.example.org:80", "", "0.0.0.0", "[::]", "::1", "[::2]"],
)
@pytest.mark.parametrize("path", ["/", "/health/live", "/v1/translate", "/metrics"])
def test_under_another_name_it_answers_nothing(idle: House, host: str, path: str) -> None:
    """A page of another site whose name leads to this machine must not be able to ask."""
    answer = idle.ask("GET", path, idle.another(hosts=LOOPBACK_NAMES), headers={"host": host})
    assert (answer.status_code, answer.headers["connection"]) == (421, "close")
    assert idle.log[-1]["refused"] == "guard"


def test_a_request_without_any_host_is_refused(idle: House) -> None:
    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("let in")

    statuses = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    async def receive() -> Any:
        raise AssertionError("read")

    guard = Guard(inner, idle.service, SMALL, idle.writing, idle.metrics, LOOPBACK_NAMES)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    idle.run(_call(guard, scope, receive, send))
    assert statuses == [421, None]


async def _call(guard: Guard, scope: Any, receive: Any, send: Any) -> None:
    await guard(scope, receive, send)


def test_elsewhere_any_name_will_do(idle: House) -> None:
    assert idle.ask("GET", "/health/live", headers={"host": "translate.example.org"}).status_code == 200


ANYTHING = {
    200: ("GET", "/health/live", {}),
    404: ("GET", "/nothing", {}),
    405: ("GET", "/translate", {}),
    413: ("POST", "/translate", {"headers": {"content-length": "99999999"}}),
    421: ("GET", "/", {"headers": {"host": "example.org"}}),
    422: ("POST", "/v1/translate", {"json": {}}),
    503: ("GET", "/health/ready", {}),
}


@pytest.mark.parametrize("status", ANYTHING)
def test_every_answer_has_the_headers_of_security_and_an_id_of_its_own(idle: House, status: int) -> None:
    method, path, given = ANYTHING[status]
    app = idle.another(hosts=LOOPBACK_NAMES)
    answers = [idle.ask(method, path, app, **given) for _ in range(2)]
    for answer in answers:
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in SECURITY} == SECURITY
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    one, two = (answer.headers["x-request-id"] for answer in answers)
    assert len(one) == 16
    assert one != two
    if path.startswith("/v1/"):
        assert answers[0].json()["request_id"] == one
    if status not in (200, 503):  # how it is asked for is not logged
        assert [line["id"] for line in idle.log] == [one, two]


def test_the_policy_allows_no_script_in_the_page_itself_and_nothing_from_elsewhere() -> None:
    policy = SECURITY["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy.replace("https:", "http:")


def test_who_asks_while_it_stops_is_answered_and_sent_away(idle: House) -> None:
    assert "connection" not in idle.ask("GET", "/health/live").headers
    idle.service.draining = True
    answer = idle.ask("GET", "/health/live")
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert idle.ask("GET", "/health/ready").json() == {"status": "stopping"}


def secrets(path: str) -> list[dict[str, Any]]:
    """Requests that hold a word in every place where there can be one."""
    return [
        {"json": {"q": SECRET, "source": "en", "target": "de"}},
        {"json": {"texts": SECRET, "model": SECRET, "source": SECRET, "target": SECRET, "prefix": SECRET}},
        {"json": {"texts": [SECRET], SECRET: SECRET}},
        {"json": {"q": 1, "source": SECRET, "api_key": SECRET}},
        {"content": SECRET.encode()},
        {"data": {"q": SECRET, "source": "auto", "target": "de", "api_key": SECRET}},
        {"params": {"q": SECRET}, "content": b"x" * 4096},
        {"headers": {"authorization": "Bearer Zwetschgen", "user-agent": "Zwetschgen", "host": "Zwetschgen"}},
    ]


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect", f"/{SECRET}", f"/v1/{SECRET}"])
def test_no_word_of_a_request_comes_into_the_log_or_the_metrics(idle: House, path: str) -> None:
    app = idle.another(limits=SMALL, hosts=LOOPBACK_NAMES)
    for given in secrets(path):
        idle.ask("POST", path, app, **given)
    assert len(idle.log) == len(secrets(path))
    for text in (idle.log_text, idle.metrics.text().decode()):
        assert "zwetschg" not in text.lower()
        assert "kn\\u00f6del" not in text


def test_what_is_logged_of_a_request(idle: House) -> None:
    answer = idle.post("/v1/translate", texts="a", model="none")
    (line,) = idle.log
    assert line.pop("time").endswith("+00:00")
    assert 0 <= line.pop("ms") < 60_000
    assert line == {
        "level": "info",
        "event": "request",
        "id": answer.headers["x-request-id"],
        "method": "POST",
        "route": "/v1/translate",
        "status": 404,
        "refused": "unknownmodel",
    }


def test_who_asks_whether_it_lives_is_counted_but_not_logged(idle: House) -> None:
    for path in ("/health", "/health/live", "/health/ready"):
        idle.ask("GET", path)
    assert idle.log == []
    assert b'dragoman_requests_total{route="/health/live",status="200"} 1.0' in idle.metrics.text()


def test_a_route_that_breaks_is_logged_and_counted_with_its_status(idle: House) -> None:
    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        raise RuntimeError(SECRET)

    guard = Guard(breaks, idle.service, SMALL, idle.writing, idle.metrics, None)
    with pytest.raises(RuntimeError, match=SECRET):
        idle.run(asked(guard, "GET", "/"))
    assert [line["status"] for line in idle.log] == [500]
    assert SECRET not in idle.log_text
    assert b'dragoman_requests_total{route="other",status="500"} 1.0' in idle.metrics.text()
    assert b"dragoman_requests_open 0.0" in idle.metrics.text()


def test_what_is_no_request_goes_through(idle: House) -> None:
    seen: list[str] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    guard = Guard(inner, idle.service, SMALL, idle.writing, idle.metrics, LOOPBACK_NAMES)
    idle.run(_call(guard, {"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
