"""Runs in the studio: their log as it grows, their probe, and what a request may ask for."""

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from runs import validation, write_probe, write_run

from dragoman.experiment.findings import Finding, save_findings
from dragoman.experiment.run_state import lock_folder
from dragoman.inspection.evolution import read_evolution
from dragoman.studio.run_watch import LogReader, WatchedRun, is_watchable
from dragoman.studio.studio_app import create_app

TOKEN = "a-token"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


@pytest.fixture
def client(run: Path) -> TestClient:
    app = create_app({}, TOKEN, frozenset({"127.0.0.1:5100"}), {"run": WatchedRun("run", run)})
    headers = {"authorization": f"Bearer {TOKEN}"}
    return TestClient(app, "http://127.0.0.1:5100", headers=headers)  # type: ignore[arg-type]


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


# The log


def test_lines_are_read_once_and_whole(run: Path) -> None:
    reader = LogReader(run / "log.jsonl")
    first = reader.read()
    assert first is not None
    assert first.is_first
    assert [event.event for event in first.events][:2] == ["begin", "update"]
    assert reader.read() is None
    append(run / "log.jsonl", '{"event": "update", "update": 2')
    assert reader.read() is None
    append(run / "log.jsonl", '01, "loss": 1.5}\n')
    page = reader.read()
    assert page is not None
    assert not page.is_first
    assert [(event.update, event.loss) for event in page.events] == [(201, 1.5)]


def test_a_log_that_is_written_anew_is_read_from_its_beginning(run: Path) -> None:
    reader = LogReader(run / "log.jsonl")
    reader.read()
    begin = (run / "log.jsonl").read_text("utf-8").splitlines()[0]
    (run / "new").write_text(f"{begin}\n{begin}\n" * 50, encoding="utf-8")  # longer, as after a resumed run
    (run / "new").replace(run / "log.jsonl")
    page = reader.read()
    assert page is not None
    assert (page.is_first, len(page.events)) == (True, 100)
    (run / "log.jsonl").write_text(f"{begin}\n", encoding="utf-8")  # shorter, in the same file
    page = reader.read()
    assert page is not None
    assert (page.is_first, len(page.events)) == (True, 1)


def test_what_is_not_a_line_of_a_log_is_skipped(run: Path) -> None:
    reader = LogReader(run / "log.jsonl")
    reader.read()
    append(run / "log.jsonl", '[]\n{"update": 3}\nnonsense\n{"event": "update", "update": 7, "loss": NaN, "new": {}}\n')
    page = reader.read()
    assert page is not None
    assert [event.update for event in page.events] == [7]
    assert math.isnan(page.events[0].loss or 0)
    assert json.loads(page.model_dump_json())["events"][0]["loss"] is None


def test_a_run_without_a_log_has_no_lines(tmp_path: Path) -> None:
    assert LogReader(tmp_path / "log.jsonl").read() is None


# The stream


async def next_message(messages: AsyncIterator[str], kind: str) -> dict[str, Any]:
    async for message in messages:
        name, data = message.removesuffix("\n\n").split("\n")
        if name == f"event: {kind}":
            return json.loads(data.removeprefix("data: "))
    raise AssertionError(f"no {kind}")


def test_the_stream_tells_what_changes(run: Path) -> None:
    async def follow() -> None:
        messages = WatchedRun("run", run).messages(lambda: False)
        assert (await next_message(messages, "log"))["is_first"]
        state = await next_message(messages, "state")
        assert (state["is_running"], state["is_finished"]) == (False, False)
        append(run / "log.jsonl", json.dumps(validation(300, bleu=31.5)) + "\n")
        page = await asyncio.wait_for(next_message(messages, "log"), 2)
        assert [event["bleu"] for event in page["events"]] == [31.5]
        write_probe(run, 300)
        state = await asyncio.wait_for(next_message(messages, "state"), 2)
        assert state["snapshots"][-1] == "00000300"
        with lock_folder(run):
            assert (await asyncio.wait_for(next_message(messages, "state"), 2))["is_running"]
        assert not (await asyncio.wait_for(next_message(messages, "state"), 2))["is_running"]

    asyncio.run(follow())


def test_the_stream_ends_with_the_studio(run: Path) -> None:
    async def follow() -> list[str]:
        return [message async for message in WatchedRun("run", run).messages(lambda: True)]

    assert asyncio.run(follow()) == []


# Probe and findings


def test_the_evolution_is_that_of_the_command(client: TestClient, run: Path) -> None:
    found = client.get("/api/runs/run/evolution").json()
    expected = json.loads(read_evolution(run).to_json())
    assert found["heads"] == expected["heads"]
    assert found["snapshots"] == expected["snapshots"]
    assert (found["kept"], found["folders"]) == (expected["kept"], ["00000000", "00000100", "00000200"])


def test_a_new_run_in_the_same_folder_is_read_again(run: Path) -> None:
    watched = WatchedRun("run", run)
    before = watched.evolution()
    os.utime(run / "probe" / "00000100", ns=(1, 1))
    write_probe(run, 300)
    after = watched.evolution()
    assert len(after.snapshots) == len(before.snapshots) + 1
    assert after.heads[0].entropy[:3] == before.heads[0].entropy


def test_a_trace_is_the_file_itself(client: TestClient, run: Path) -> None:
    found = client.get("/api/runs/run/traces/00000100/1")
    assert found.content == (run / "probe" / "00000100" / "1.trace").read_bytes()


@pytest.mark.parametrize(
    "path", ["00000100/2", "00000100/-1", "00000101/0", "%2e%2e/0", "..%2f..%2frun%2fprobe%2f00000100/0"]
)
def test_no_other_file_is_sent(client: TestClient, run: Path, path: str) -> None:
    (run / "0.trace").write_bytes(b"secret")
    assert client.get(f"/api/runs/run/traces/{path}").status_code in (404, 422)


def test_an_unknown_run_is_an_error_that_names_the_others(client: TestClient) -> None:
    answer = client.get("/api/runs/other/evolution")
    assert (answer.status_code, "choose from run" in answer.json()["error"]) == (404, True)


def test_runs_need_the_token(client: TestClient) -> None:
    for path in ("events", "evolution", "traces/00000100/0"):
        assert client.get(f"/api/runs/run/{path}", headers={"authorization": "Bearer x"}).status_code == 401


def test_findings_are_part_of_the_state(run: Path) -> None:
    save_findings(run, [Finding("memory", "ok", "it fits"), Finding("alignment", "warning", "from line 3 on")])
    findings = WatchedRun("run", run).state.findings
    assert [(finding.check, finding.level) for finding in findings] == [("memory", "ok"), ("alignment", "warning")]
    (run / "findings.json").write_text("{", encoding="utf-8")
    assert WatchedRun("run", run).state.findings == ()


def test_a_folder_is_a_run_as_soon_as_it_has_a_log(tmp_path: Path, run: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert [is_watchable(tmp_path / name) for name in ("run", "empty", "none")] == [True, False, False]
