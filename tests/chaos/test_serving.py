"""The short forms of the attacks on the service, deliberate or not.

How fast it is must be measured on a machine at rest, by the long forms; here it is what must never happen. Each script
is run a second time with a protection taken away, and must then say so.
"""

import asyncio
import contextlib
import io
from collections.abc import Sequence
from functools import partial

import httpx
import pytest
import script_runner
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from dragoman.api_schemas import ModelInfo
from dragoman.serving.app import create_app
from dragoman.serving.config import Limits, ServiceConfig
from dragoman.serving.http_server import TimeoutProtocol
from dragoman.serving.model_worker import Answer, isolate_errors
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service

run = partial(script_runner.run, seconds=1200)


@pytest.mark.slow
def test_naughty_strings_hurt_neither_the_service_nor_their_neighbours() -> None:
    code, values = run("naughty_strings.py", "--every", "40")
    assert values["ours"] >= 60
    assert (values["errors_500"], values["engines_lost"], values["neighbours_hurt"]) == (0, 0, 0), values
    assert values["refused"] > 0
    assert code == 0


@pytest.mark.slow
def test_without_checks_and_isolation_naughty_strings_would_end_engines() -> None:
    code, values = run("naughty_strings.py", "--every", "1000", "--ours", "3", "--careless")
    assert values["errors_500"] > 0
    assert values["engines_lost"] > 0
    assert code == 1


@pytest.mark.parametrize("bad", range(5))
def test_of_a_batch_that_fails_the_one_to_blame_is_found(bad: int) -> None:
    texts = [f"text {number}" for number in range(5)]

    def work(some: Sequence[str]) -> list[Answer]:
        if texts[bad] in some:
            raise RuntimeError("not this one")
        return [{"hypotheses": [{"text": text}]} for text in some]

    found = isolate_errors(work, texts)
    assert [number for number, answer in enumerate(found) if "error" in answer] == [bad]
    assert all(found[number]["hypotheses"][0]["text"] == texts[number] for number in range(5) if number != bad)
    with pytest.raises(RuntimeError, match="not this one"):  # the inverse: all five would fall with it
        work(texts)


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/models", "application/problem+json"), ("/languages", "application/json")]
)
def test_a_crash_is_answered_like_other_errors_and_its_place_is_logged(path: str, kind: str) -> None:
    class Crashing(Service):
        @property
        def models(self) -> dict[str, ModelInfo]:
            raise ZeroDivisionError("with a user's text in it")

    log = io.StringIO()
    service = Service.create(ServiceConfig({}), JsonLog(log))
    app = create_app(Crashing(**vars(service)))
    answer = asyncio.run(get(app, path))
    assert (answer.status_code, answer.headers["content-type"]) == (500, kind)
    assert "internal error" in answer.text
    assert "ZeroDivisionError in test_serving.py:" in log.getvalue()
    assert "user" not in log.getvalue() + answer.text


async def get(app: ASGIApp, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
FAR = {"header_seconds": 300, "body_seconds": 300, "idle_seconds": 300, "body_bytes": 1024}
GREEDY: dict[str, tuple[bytes, bytes, dict[str, float]]] = {
    "never reads its answer": (GET + b"\r\n", b"\r\n", {"header_seconds": 0.5}),
    "sends nothing but empty lines": (
        GET + b"Small: yes\r\n\r\n",
        b"\r\n",
        {"header_seconds": 0.5, "idle_seconds": 0.5},
    ),
    "has a head without an end": (GET + b"Long: ", b"x" * 100_000, {}),
    "sends a thousand requests at once": ((GET + b"Small: yes\r\n\r\n") * 1000, b"", {}),
    "has a foot without an end": (CHUNKED + b"Long: ", b"x" * 100_000, {}),
}


async def held(protocol: type[HttpToolsProtocol], first: bytes, more: bytes, seconds: float) -> bool:
    """Whether a client that sends this, and more ten times a second, is still connected after so long."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        small = any(name == b"small" for name, _ in scope["headers"])
        while not small and (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"." if small else bytes(1 << 25)})

    config = uvicorn.Config(app, http=protocol, ws="none", log_level="critical", timeout_keep_alive=300)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
        end = loop.time() + seconds
        with contextlib.suppress(ConnectionError):
            writer.write(first)
            await asyncio.sleep(0.3)  # until it is taken
            while state.connections and loop.time() < end:
                writer.write(more)
                await asyncio.sleep(0.1)
        connected = bool(state.connections)
        writer.transport.abort()
        for task in state.tasks:
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
    return connected


@pytest.mark.parametrize("attack", GREEDY)
def test_a_client_is_cut_off_that(attack: str) -> None:
    first, more, limits = GREEDY[attack]
    protocol = type("Strict", (TimeoutProtocol,), {"limits": Limits.model_validate(FAR | limits)})
    assert not asyncio.run(held(protocol, first, more, 30.0))
    assert asyncio.run(held(HttpToolsProtocol, first, more, 2.0))  # by uvicorn alone they are not


@pytest.mark.slow
def test_slow_clients_and_too_large_requests_are_shut_out() -> None:
    code, values = run(
        *("slow_clients.py", "--heads", "60", "--bodies", "20", "--megabytes", "128"),
        *("--seconds", "3", "--rate", "5", "--closed", "20", "--within", "1000"),
    )
    assert values["megabytes_grown"] <= 20
    assert {values[f"{name}_status"] for name in ("declared", "chunked", "chunked_v1")} == {413}
    assert code == 0, values


@pytest.mark.slow
def test_plain_uvicorn_would_keep_them_all_and_hold_their_bodies() -> None:
    code, values = run(
        *("slow_clients.py", "--heads", "30", "--bodies", "10", "--megabytes", "64"),
        *("--seconds", "1", "--rate", "5", "--closed", "6", "--within", "1000", "--patient"),
    )
    assert min(values[f"{name}_closed_s"] for name in ("head", "body", "empty_lines")) > 11
    assert values["megabytes_grown"] > 20
    assert values["most_megabytes_sent"] == 64
    assert code == 1


@pytest.mark.slow
def test_no_request_without_a_right_key_or_host_gets_in() -> None:
    code, values = run("intrusion.py")
    assert (values["routes"], values["traversals"]) >= (10, 30)
    assert (values["let_in"], values["hits"], values["names_let_in"], values["cors_leaks"]) == ([], [], [], [])
    assert (values["page_faults"], values["listens_elsewhere"], values["started_all_the_same"]) == ([], [], [])
    assert code == 0, values


@pytest.mark.slow
def test_a_key_that_is_not_compared_and_a_name_that_is_not_looked_at_would_be_noticed() -> None:
    code, values = run("intrusion.py", "--open")
    assert len(values["let_in"]) > 100
    assert len(values["names_let_in"]) > 10
    assert code == 1


@pytest.mark.slow
def test_hostile_models_are_rejected_and_the_old_one_stays() -> None:
    code, values = run("hostile_models.py", "--every", "6")
    assert values["reloads"] >= 12
    assert values["accepted"] == []
    assert (values["canary_silent"], code) == (1, 0)


@pytest.mark.slow
def test_weights_read_as_pickles_would_run_code() -> None:
    code, values = run("hostile_models.py", "--careless")
    assert (values["canary_silent"], code) == (0, 1)


@pytest.mark.slow
def test_every_answer_is_as_documented() -> None:
    code, values = run("openapi_fuzz.py", "--seconds", "25")
    assert values["failures"] == []
    assert values["operations"] >= 9
    assert values["cases"] > 100
    assert code == 0


@pytest.mark.slow
def test_a_failure_that_is_not_documented_would_be_noticed() -> None:
    code, values = run("openapi_fuzz.py", "--seconds", "30", "--phases", "coverage", "--undocumented")
    assert values["failures"]
    assert code == 1


@pytest.mark.slow
@pytest.mark.parametrize("careless", [False, True])
def test_engines_are_freed_of_work_that_nobody_awaits(careless: bool) -> None:
    """How soon, is measured on a machine at rest."""
    arguments = ["--times", "1", "--seconds", "2", "--within", "300", *(["--careless"] if careless else [])]
    _, values = run("cancellations.py", *arguments)
    assert values["left_measured"] == 1
    assert values["left_cancelled"] == (0 if careless else 1)
    assert values["left_lost"] == 0
