"""Triage as a job of the studio: progress, the ranking of the command, and an end when the client goes away."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient

from dragoman.bundle import open_bundle
from dragoman.io.progress import Progress
from dragoman.studio.job_stream import stream_job
from dragoman.studio.schemas import MAX_LINES
from dragoman.studio.studio_app import create_app
from dragoman.studio.tracing import StudioModel
from dragoman.triage.model_triage import TriageModel, rank_measured
from dragoman.triage.ranking import TriageReport, make_report, rank_texts

MODEL = Path(__file__).parents[2] / "golden" / "v1"
TOKEN = "a-token"
SOURCES = ["ten old houses.", "two red dogs 300.", "", "four green women."]
PATIENCE_S = 10.0


def read_events(text: str) -> list[tuple[str, Any]]:
    messages = [message.split("\n") for message in text.removesuffix("\n\n").split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in messages]


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = create_app({"v1": StudioModel("v1", MODEL)}, TOKEN, frozenset({"127.0.0.1:5100"}))
    return TestClient(app, "http://127.0.0.1:5100", headers={"authorization": f"Bearer {TOKEN}"})


def test_the_report_is_that_of_the_command(client: TestClient) -> None:
    response = client.post("/api/triage", json={"model": "v1", "sources": SOURCES})
    assert response.status_code == 200, response.text
    *progress, (name, report) = read_events(response.text)
    assert {kind for kind, _ in progress} == {"progress"}
    assert progress[-1][1] == {"done": 4, "total": 4}
    model = TriageModel.of(open_bundle(MODEL))
    expected = make_report(*rank_measured(model.measure(SOURCES), model.sha256, is_free=True))
    assert name == "report"
    assert report == json.loads(expected.model_dump_json())
    assert any(line["signals"] for line in report["lines"])


def test_it_needs_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
from dragoman.bundle import demo_folder
from dragoman.io.progress import ignore_progress
from dragoman.studio.studio_app import create_app
from dragoman.studio.tracing import StudioModel
model = StudioModel("demo", demo_folder())
create_app({"demo": model}, "", frozenset())
print(model.triage(["A dog sleeps."], ignore_progress).model_dump_json())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = TriageReport.model_validate_json(done.stdout).lines
    assert line.target
    assert line.signals


@pytest.mark.parametrize(
    "fields", [{"model": "none"}, {"sources": []}, {"sources": ["a"] * (MAX_LINES + 1)}, {"sources": ["a" * 5001]}]
)
def test_what_cannot_be_ranked_is_refused(client: TestClient, fields: dict[str, object]) -> None:
    response = client.post("/api/triage", json={"model": "v1", "sources": SOURCES, **fields})
    assert response.status_code == 422
    assert response.json()["error"]


def test_it_needs_the_token(client: TestClient) -> None:
    response = client.post("/api/triage", json={}, headers={"authorization": "Bearer x"})
    assert response.status_code == 401


class LongWork:
    """Work that goes on until its progress report stops it; at last it gives up, so that a failing test ends."""

    def __init__(self) -> None:
        self.reports, self.was_stopped = 0, threading.Event()

    def __call__(self, progress: Progress) -> TriageReport:
        end = time.monotonic() + 2 * PATIENCE_S
        while time.monotonic() < end:
            self.reports += 1
            try:
                progress("triage", self.reports, 10)
            except Exception:
                self.was_stopped.set()
                raise
            time.sleep(0.01)
        raise ValueError("nobody stopped the work")


def test_progress_arrives_while_it_works_and_an_early_end_stops_the_work() -> None:
    work = LongWork()

    async def follow() -> None:
        messages = stream_job(work, lambda: False)
        for done in (1, 2, 3):
            ((name, data),) = read_events(await asyncio.wait_for(anext(messages), PATIENCE_S))
            assert (name, data) == ("progress", {"done": done, "total": 10})
        assert not work.was_stopped.is_set()
        await messages.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(work.was_stopped.wait, PATIENCE_S)

    asyncio.run(follow())


def test_the_work_ends_with_the_studio() -> None:
    work = LongWork()

    async def follow() -> list[str]:
        return [message async for message in stream_job(work, lambda: work.reports > 5)]

    assert len(asyncio.run(follow())) == 5
    assert work.was_stopped.is_set()


def test_an_error_is_told() -> None:
    def fail(progress: Progress) -> TriageReport:
        raise ValueError("this model is broken: train it again")

    async def follow() -> list[str]:
        return [message async for message in stream_job(fail, lambda: False)]

    assert read_events("".join(asyncio.run(follow()))) == [("error", {"error": "this model is broken: train it again"})]


class SlowModel(StudioModel):
    """A model of the studio whose work is long."""

    work: LongWork

    def triage(self, sources: Any, progress: Progress) -> TriageReport:
        if len(sources) == 1:
            return make_report(*rank_texts(sources, ["x"]))
        return self.work(progress)


@pytest.fixture
def served() -> Iterator[tuple[SlowModel, str]]:
    model = SlowModel("v1", MODEL)
    model.work = LongWork()
    config = uvicorn.Config(lambda: None, port=0, log_level="warning")
    with config.bind_socket() as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        config.app = create_app({"v1": model}, TOKEN, frozenset({host}))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=[[listener]])
        thread.start()
        yield model, f"http://{host}"
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_over_http_a_client_that_leaves_stops_the_work(served: tuple[SlowModel, str]) -> None:
    model, address = served
    headers = {"authorization": f"Bearer {TOKEN}"}
    body = {"model": "v1", "sources": ["a", "b"]}
    with httpx.stream("POST", f"{address}/api/triage", json=body, headers=headers, timeout=PATIENCE_S) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "event: progress"
        assert json.loads(next(lines).removeprefix("data: ")) == {"done": 1, "total": 10}
        assert not model.work.was_stopped.is_set()
    assert model.work.was_stopped.wait(PATIENCE_S)
    again = httpx.post(f"{address}/api/triage", json={"model": "v1", "sources": ["a"]}, headers=headers)
    assert read_events(again.text)[-1][0] == "report"
