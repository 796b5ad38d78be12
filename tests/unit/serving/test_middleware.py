"""What surrounds every request: its size, its host, the headers of its answer, and a log without a word of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from service_harness import ServiceHarness, send_request
from starlette.types import Receive, Scope, Send

from dragoman.serving.config import Limits
from dragoman.serving.errors import OverloadedError
from dragoman.serving.middleware import SECURITY_HEADERS, ServiceMiddleware
from dragoman.serving.run import LOOPBACK_NAMES

SMALL = Limits(body_bytes=2048)
SECRET = "Zwetschgenknödel"


async def parts(given: list[int], number: int = 64, size: int = 1024) -> AsyncIterator[bytes]:
    """Yield a body without a declared length; the sizes read are recorded."""
    for _ in range(number):
        given.append(size)
        yield b"x" * size


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect", "/nothing"])
def test_a_declared_length_above_the_limit_is_rejected_unread(idle: ServiceHarness, path: str) -> None:
    read: list[int] = []
    app = idle.create_app(limits=SMALL)
    answer = idle.request("POST", path, app, content=parts(read), headers={"content-length": "65536"})
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert read == []
    content = answer.json()
    detail = content["detail"] if path.startswith("/v1/") else content["error"]
    assert detail == "the body is larger than 2,048 bytes: send less text per request"


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_under_overload_a_request_is_rejected_before_it_is_read(
    idle: ServiceHarness, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject() -> None:
        raise OverloadedError("70 sentences wait: try again later", 1.5)

    monkeypatch.setattr(idle.dispatcher, "check_capacity", reject)
    read: list[int] = []
    answer = idle.request("POST", path, content=parts(read, 2), headers={"content-length": "2048"})
    status = 503 if path.startswith("/v1/") else 429  # some clients of LibreTranslate stop for long after a 503
    assert (answer.status_code, answer.headers["retry-after"], read) == (status, "2", [])
    content = answer.json()
    assert "70 sentences wait" in (content["detail"] if path.startswith("/v1/") else content["error"])
    assert idle.log[-1]["route"] == path
    assert idle.log[-1]["refused"] == "busy"
    assert idle.log[-1]["level"] == ("warning" if status == 503 else "info")
    assert idle.request("GET", "/v1/models").status_code == 200  # what costs nothing is answered


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/health/live", "/health/ready"])
def test_requests_above_the_connection_limit_get_503_but_health_is_answered(idle: ServiceHarness, path: str) -> None:
    async def crowded(scope: Scope, receive: Receive, send: Send) -> None:
        await idle.app({**scope, "crowded": True}, receive, send)

    answer = idle.request("GET" if "health" in path else "POST", path, crowded)
    if "health" in path:
        assert answer.json()["status"] in ("ok", "starting")  # as it is
    else:
        status = 503 if path.startswith("/v1/") else 429
        assert (answer.status_code, answer.headers["retry-after"]) == (status, "1")
        assert answer.headers["connection"] == "close"
        assert "too many connections" in answer.text


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect"])
def test_a_body_that_grows_too_large_is_refused_and_not_read_to_its_end(idle: ServiceHarness, path: str) -> None:
    read: list[int] = []
    headers = {"content-type": "application/json", "transfer-encoding": "chunked"}
    answer = idle.request("POST", path, idle.create_app(limits=SMALL), content=parts(read), headers=headers)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert sum(read) <= 2048 + 1024
    kind = "application/problem+json" if path.startswith("/v1/") else "application/json"
    assert answer.headers["content-type"] == kind


def test_a_head_that_lies_does_not_help(idle: ServiceHarness) -> None:
    read: list[int] = []
    answer = idle.request(
        "POST", "/translate", idle.create_app(limits=SMALL), content=parts(read), headers={"content-length": "5"}
    )
    assert answer.status_code == 413
    assert sum(read) <= 2048 + 1024


def test_a_body_as_large_as_the_limit_is_taken(idle: ServiceHarness) -> None:
    body = b'{"q": "' + b" " * (2048 - 9) + b'"}'
    assert len(body) == 2048
    for content, status in ((body, 400), (body[:7] + b" " + body[7:], 413)):
        answer = idle.request("POST", "/translate", idle.create_app(limits=SMALL), content=content)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:5000", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:5000", "localhost:"]
)
def test_on_this_machine_alone_it_answers_under_its_own_names(idle: ServiceHarness, host: str) -> None:
    app = idle.create_app(hosts=LOOPBACK_NAMES)
    assert idle.request("GET", "/health/live", app, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["example.org", "localhost.example.org", "127.0.0.1.example.org:80", "", "0.0.0.0", "[::]", "::1", "[::2]"],
)
@pytest.mark.parametrize("path", ["/", "/health/live", "/v1/translate", "/metrics"])
def test_under_another_name_it_answers_nothing(idle: ServiceHarness, host: str, path: str) -> None:
    """A page of another site whose name leads to this machine must not be able to ask."""
    answer = idle.request("GET", path, idle.create_app(hosts=LOOPBACK_NAMES), headers={"host": host})
    assert (answer.status_code, answer.headers["connection"]) == (421, "close")
    assert idle.log[-1]["refused"] == "guard"


def test_a_request_without_any_host_is_refused(idle: ServiceHarness) -> None:
    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("let in")

    statuses = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    async def receive() -> Any:
        raise AssertionError("read")

    middleware = ServiceMiddleware(inner, replace(idle.service, limits=SMALL), LOOPBACK_NAMES)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    idle.run(_call(middleware, scope, receive, send))
    assert statuses == [421, None]


async def _call(guard: ServiceMiddleware, scope: Any, receive: Any, send: Any) -> None:
    await guard(scope, receive, send)


def test_elsewhere_any_name_will_do(idle: ServiceHarness) -> None:
    assert idle.request("GET", "/health/live", headers={"host": "translate.example.org"}).status_code == 200


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
def test_every_answer_has_the_headers_of_security_and_an_id_of_its_own(idle: ServiceHarness, status: int) -> None:
    method, path, given = ANYTHING[status]
    app = idle.create_app(hosts=LOOPBACK_NAMES)
    answers = [idle.request(method, path, app, **given) for _ in range(2)]
    for answer in answers:
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    one, two = (answer.headers["x-request-id"] for answer in answers)
    assert len(one) == 16
    assert one != two
    if path.startswith("/v1/"):
        assert answers[0].json()["request_id"] == one
    if status not in (200, 503):  # health is not logged
        assert [line["id"] for line in idle.log] == [one, two]


def test_the_policy_allows_no_script_in_the_page_itself_and_nothing_from_elsewhere() -> None:
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy.replace("https:", "http:")


def test_a_draining_service_answers_and_closes_connections(idle: ServiceHarness) -> None:
    assert "connection" not in idle.request("GET", "/health/live").headers
    idle.service.is_draining = True
    answer = idle.request("GET", "/health/live")
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert idle.request("GET", "/health/ready").json() == {"status": "stopping"}


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


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect", f"/{SECRET}", f"/v1/{SECRET}"])
def test_no_word_of_a_request_comes_into_the_log_or_the_metrics(idle: ServiceHarness, path: str) -> None:
    app = idle.create_app(limits=SMALL, hosts=LOOPBACK_NAMES)
    for given in secrets(path):
        idle.request("POST", path, app, **given)
    assert len(idle.log) == len(secrets(path))
    for text in (idle.log_text, idle.metrics.text().decode()):
        assert "zwetschg" not in text.lower()
        assert "kn\\u00f6del" not in text


def test_the_log_line_of_a_request(idle: ServiceHarness) -> None:
    answer = idle.post("/v1/translate", texts="a", model="none")
    (line,) = idle.log
    assert line.pop("time").endswith("+00:00")
    assert 0 <= line.pop("ms") < 60_000
    assert line == {
        "level": "info",
        "event": "request",
        "id": answer.headers["x-request-id"],
        "client": "127.0.0.1",
        "method": "POST",
        "route": "/v1/translate",
        "status": 404,
        "refused": "unknownmodel",
    }


def test_health_requests_are_counted_but_not_logged(idle: ServiceHarness) -> None:
    for path in ("/health", "/health/live", "/health/ready"):
        idle.request("GET", path)
    assert idle.log == []
    assert b'dragoman_requests_total{route="/health/live",status="200"} 1.0' in idle.metrics.text()


def test_a_route_that_crashes_is_logged_and_counted_with_its_status(idle: ServiceHarness) -> None:
    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        raise RuntimeError(SECRET)

    middleware = ServiceMiddleware(breaks, replace(idle.service, limits=SMALL))
    with pytest.raises(RuntimeError, match=SECRET):
        idle.run(send_request(middleware, "GET", "/"))
    assert [(line["status"], line["level"]) for line in idle.log] == [(500, "error")]
    assert SECRET not in idle.log_text
    assert b'dragoman_requests_total{route="other",status="500"} 1.0' in idle.metrics.text()
    assert b"dragoman_requests_open 0.0" in idle.metrics.text()


def test_other_asgi_messages_pass_through(idle: ServiceHarness) -> None:
    seen: list[str] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    middleware = ServiceMiddleware(inner, replace(idle.service, limits=SMALL), LOOPBACK_NAMES)
    idle.run(_call(middleware, {"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_given_id_and_trace_come_back_and_into_the_log(idle: ServiceHarness) -> None:
    headers = {"x-request-id": "shop-17:a.b", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    answer = idle.request("GET", "/v1/models", headers=headers)
    assert answer.headers["x-request-id"] == idle.log[-1]["id"] == "shop-17:a.b"
    assert idle.log[-1]["trace"] == TRACE
    version, trace, span, flags = answer.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    assert span != "00f067aa0ba902b7"


@pytest.mark.parametrize("given", ["", "two words", 'a"b', "x" * 129, "a\u00e4"])
def test_an_id_that_could_spoil_the_log_is_replaced(idle: ServiceHarness, given: str) -> None:
    for traceparent in ("00-0-0-0", f"00-{TRACE}-00f067aa0ba902b7-01-more", f"00-{'0' * 32}-00f067aa0ba902b7-01"):
        headers = {"x-request-id": given.encode("latin-1"), "traceparent": traceparent.encode()}
        answer = idle.request("GET", "/v1/models", headers=headers)
        assert len(answer.headers["x-request-id"]) == 16
        assert "traceparent" not in answer.headers
        assert "trace" not in idle.log[-1]


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect"])
def test_a_page_of_another_site_is_refused(idle: ServiceHarness, path: str) -> None:
    app = idle.create_app(origins=("https://shop.example",))

    def status(**headers: str) -> int:
        content = idle.request("POST", path, app, content=b"{}", headers=headers)
        return content.status_code

    accepted = status()
    assert accepted in (400, 422)
    for foreign in ("https://evil.example", "null", "http://localhost.evil.example", "http://localhost:81"):
        assert status(origin=foreign) == 403
        assert status(origin=foreign, **{"sec-fetch-site": "cross-site"}) == 403
    assert status(origin="http://localhost") == accepted
    assert status(origin="https://shop.example") == accepted
    assert status(origin="https://behind.proxy", **{"sec-fetch-site": "same-origin"}) == accepted


def test_several_host_headers_are_refused(idle: ServiceHarness) -> None:
    statuses = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    hosts = [(b"host", b"localhost"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": hosts}
    idle.run(_call(idle.app, scope, None, send))  # type: ignore[arg-type]
    assert statuses == [400, None]


@pytest.mark.parametrize(("timed_out", "status"), [(False, 499), (True, 408)])
@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/detect"])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error_of_ours(
    idle: ServiceHarness, path: str, timed_out: bool, status: int
) -> None:
    messages = iter([{"type": "http.request", "body": b'{"q', "more_body": True}, {"type": "http.disconnect"}])
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [(b"host", b"a")]}
    scope |= {"timed_out": True} if timed_out else {}

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        pass

    idle.run(_call(idle.app, scope, receive, send))  # type: ignore[arg-type]
    assert idle.log[-1]["status"] == status
    assert "mistake" not in idle.log[-1]
    assert f'{{route="{path}",status="{status}"}} 1.0'.encode() in idle.metrics.text()
