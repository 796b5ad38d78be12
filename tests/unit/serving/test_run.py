"""Starting a service: the checks before it listens, and its log."""

import asyncio
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.serving.config import ServiceConfig, is_loopback
from dragoman.serving.keys import ApiKey
from dragoman.serving.run import REPEAT_SECONDS, JsonLog, LoopErrors, run_service

KEYS = (ApiKey(name="a", sha256="0" * 64),)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    ServiceConfig({}, host=host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", "localhost.example.org", "", "127.1"])
def test_whatever_others_can_reach_needs_them(host: str, tmp_path: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="can be reached from other machines, so keys are required"):
        run_service(ServiceConfig({"a": tmp_path}, host=host, port=0), lambda *_: None)
    ServiceConfig({}, host=host, keys=KEYS).check()


@pytest.mark.parametrize("origin", ["*", "https://*.example.org", "example.org", "null"])
def test_every_origin_must_be_named(origin: str) -> None:
    with pytest.raises(ValueError, match="give the full origin"):
        ServiceConfig({}, origins=("https://example.org", origin)).check()
    ServiceConfig({}, origins=("https://example.org",)).check()


def test_an_event_is_one_line_of_json_without_what_is_none() -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    begin = datetime.now(UTC).replace(microsecond=0)
    log("request", id="1", status=200, refused=None)
    log("engine lost", level="warning", reason="two\nlines \u2028 and ü")
    first, second = stream.getvalue().splitlines()[0], stream.getvalue().split("\n")[1]
    line = json.loads(first)
    assert begin <= datetime.fromisoformat(line.pop("time")) <= datetime.now(UTC)
    assert line == {"level": "info", "event": "request", "id": "1", "status": 200}
    assert json.loads(second)["reason"] == "two\nlines \u2028 and ü"
    assert json.loads(second)["level"] == "warning"


def test_without_a_stream_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLog()("stopping")
    assert json.loads(capsys.readouterr().err)["event"] == "stopping"


def test_an_error_that_is_repeated_a_thousand_times_a_second_is_one_line_now_and_then() -> None:
    """As asyncio reports it when descriptors run out: with a traceback each time."""
    stream, now = io.StringIO(), 0.0
    errors = LoopErrors(JsonLog(stream), lambda: now)
    full, other = ({"message": "accept failed", "exception": error} for error in (OSError(24, "secret"), ValueError()))
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(errors)
        for _ in range(1000):
            loop.call_exception_handler(full)
        loop.call_exception_handler(other)
        now = REPEAT_SECONDS
        loop.call_exception_handler(full)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["reason"] for line in lines] == [
        f"accept failed ({name})" for name in ("OSError", "ValueError", "OSError")
    ]
    assert {line["level"] for line in lines} == {"error"}
