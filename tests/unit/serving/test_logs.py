"""The log: one JSON object a line, whatever is in it."""

import io
import json
from datetime import UTC, datetime

import pytest

from dragoman.serving.logs import Log


def test_an_event_is_one_line_of_json_without_what_is_none() -> None:
    stream = io.StringIO()
    log = Log(stream, lambda: datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC))
    log("request", id="1", status=200, refused=None)
    log("engine lost", level="warning", reason="two\nlines \u2028 and ü")
    first, second = stream.getvalue().splitlines()[0], stream.getvalue().split("\n")[1]
    when = "2026-01-02T03:04:05.678+00:00"
    assert json.loads(first) == {"time": when, "level": "info", "event": "request", "id": "1", "status": 200}
    assert json.loads(second)["reason"] == "two\nlines \u2028 and ü"
    assert json.loads(second)["level"] == "warning"


def test_without_a_stream_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Log()("stopping")
    assert json.loads(capsys.readouterr().err)["event"] == "stopping"
