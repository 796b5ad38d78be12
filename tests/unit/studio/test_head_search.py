"""Align in the studio: the ranking of the command, the links of one head, and a head that is stored in the bundle."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dragoman.alignment.aligner import Aligner
from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.moses import read_gold
from dragoman.attention.tap import cross_attentions
from dragoman.bundle import demo_folder, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.inspection.head_ranking import rank_heads
from dragoman.inspection.head_search import score_heads
from dragoman.inspection.inspector import Inspector
from dragoman.studio import tracing
from dragoman.studio.schemas import HeadSearchRequest, TraceRequest
from dragoman.studio.studio_app import create_app
from dragoman.studio.tracing import StudioModel

GOLDEN = Path(__file__).parents[2] / "golden"
TOKEN = "a-token"
SOURCES = ["ten old houses.", "", "two red dogs.", "four green women."]
TARGETS = ["zehn alte Häuser.", "nichts", "zwei rote Hunde.", "vier grüne Frauen."]
GOLD = ["1-1 2-2 3-3", "", "1-1 2-2 3-3 2p3", "1-1 2p2 3-3"]
HEAD = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read", measure="norm")
PAIRS: dict[str, Any] = {"model": "m", "sources": SOURCES, "targets": TARGETS, "gold": GOLD}


def client_of(folder: Path) -> TestClient:
    app = create_app({"m": StudioModel("m", folder)}, TOKEN, frozenset({"127.0.0.1:5100"}))
    return TestClient(app, "http://127.0.0.1:5100", headers={"authorization": f"Bearer {TOKEN}"})


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(GOLDEN / "v1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "v1", tmp_path / "v1"))


def search(client: TestClient, **fields: object) -> list[tuple[str, Any]]:
    response = client.post("/api/head-search", json={**PAIRS, **fields})
    assert response.status_code == 200, response.text
    messages = [message.split("\n") for message in response.text.removesuffix("\n\n").split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in messages]


def store(client: TestClient, head: AlignmentHead = HEAD) -> Any:
    return client.post("/api/alignment-head", json={"model": "m", "head": head.model_dump()})


def test_the_ranking_is_that_of_the_search(client: TestClient) -> None:
    *progress, (name, report) = search(client)
    assert name == "report"
    assert [data for _, data in progress] == [{"done": done, "total": 3} for done in (1, 2, 3)]
    inspector = Inspector.load(GOLDEN / "v1")
    gold = [links for links, source in zip(read_gold(GOLD), SOURCES, strict=True) if source]
    grid = score_heads(inspector.trace_pairs(SOURCES, TARGETS), gold)
    expected = rank_heads(grid, cross_attentions(inspector.model))
    assert report["ranking"] == json.loads(expected.model_dump_json())
    assert len(report["ranking"]["heads"]) == 12  # with the mean, two conventions, two measures
    assert report["diagonal_aer"] == alignment_score([frozenset((i, i) for i in range(3))] * 3, gold).aer
    assert search(client, gold=["".join(reversed(line)) for line in GOLD], swap_gold=True)[-1][1] == report


def test_the_links_of_a_head_are_those_of_the_aligner(client: TestClient) -> None:
    body = {"model": "m", "head": HEAD.model_dump(), "sources": SOURCES, "targets": TARGETS}
    found = client.post("/api/links", json=body).json()["links"]
    expected = Aligner.of(open_bundle(GOLDEN / "v1"), (HEAD,)).links(SOURCES, TARGETS)
    assert found == [sorted(map(list, of_pair)) for of_pair in expected]
    assert (found[0] != [], found[1]) == (True, [])


def test_the_scores_of_a_head_are_those_of_its_links(client: TestClient) -> None:
    for each in search(client)[-1][1]["ranking"]["heads"]:
        body = {"model": "m", "head": each["head"], "sources": SOURCES, "targets": TARGETS}
        links = client.post("/api/links", json=body).json()["links"]
        score = alignment_score([frozenset(map(tuple, of_pair)) for of_pair in links], read_gold(GOLD))
        assert each["aer"] == pytest.approx(score.aer), each["head"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"targets": TARGETS[:3]}, "4 sources but 3 translations"),
        ({"gold": GOLD[:1]}, "4 sources but 1 lines of gold links"),
        ({"gold": ["1:1", "", "", ""]}, "line 1: '1:1' is not a link"),
        ({"gold": ["1-9", "", "", ""]}, "line 1: a link has target word 9, but there are 3 words"),
        ({"gold": ["1p1", "", "", ""]}, "without sure links"),
        ({"sources": [""] * 4, "gold": GOLD}, "source word"),
        ({"sources": ["red dogs " * 99, *SOURCES[1:]]}, "line 1 of the source has"),
    ],
)
def test_what_cannot_be_searched_is_told(client: TestClient, fields: dict[str, object], expected: str) -> None:
    ((name, data),) = search(client, **fields)
    assert name == "error"
    assert expected in data["error"]


def test_another_request_is_served_while_heads_are_searched() -> None:
    model = StudioModel("m", GOLDEN / "v1")
    has_begun, done_by_then = threading.Event(), []
    pairs = {name: PAIRS[name] * 100 for name in ("sources", "targets", "gold")}

    def progress(what: str, done: int, total: int | None = None, unit: str = "") -> None:
        done_by_then.append(done)
        has_begun.set()

    search = threading.Thread(
        target=model.search_heads, args=[HeadSearchRequest.model_validate({"model": "m", **pairs}), progress]
    )
    search.start()
    assert has_begun.wait(30)
    model.trace(TraceRequest(model="m", source="two red dogs."))
    assert done_by_then[-1] < 300
    search.join()
    assert done_by_then[-1] == 300


def test_a_stored_head_is_in_the_bundle_and_in_all_that_follows(folder: Path) -> None:
    client = client_of(folder)
    before = client.post("/api/traces", json={"model": "m", "source": "two red dogs."})
    answer = store(client)
    assert answer.status_code == 200, answer.text
    bundle = open_bundle(folder)
    assert bundle.info.alignment_heads == (HEAD,)
    info = client.get("/api/studio").json()["models"][0]
    assert info == answer.json()
    assert (info["sha256"], info["alignment_heads"]) == (bundle.sha256, [HEAD.model_dump()])
    after = client.post("/api/traces", json={"model": "m", "source": "two red dogs."})
    assert HEAD.layer.encode() in after.content
    assert b'"alignment_heads":[{' in after.content.replace(b" ", b"").replace(b"\\", b"")
    assert b'"alignment_heads":[{' not in before.content.replace(b" ", b"").replace(b"\\", b"")
    other = HEAD.model_copy(update={"head": 0})
    assert store(client, other).json()["alignment_heads"] == [other.model_dump()]


def test_a_head_of_a_run_is_stored_in_its_model(folder: Path) -> None:
    run = folder.parent / "run"
    run.mkdir()
    folder.rename(run / "bundle")
    assert store(client_of(run)).status_code == 200
    assert open_bundle(run / "bundle").info.alignment_heads == (HEAD,)


@pytest.mark.parametrize("path", ["demo", "link", "inside/../link", "run"])
def test_the_demo_is_refused_by_every_path(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to(demo_folder())
    (tmp_path / "run").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "run" / "bundle").symlink_to(tmp_path / "link")
    before = {file.name: file.read_bytes() for file in demo_folder().iterdir() if file.is_file()}
    client = client_of(demo_folder() if path == "demo" else tmp_path / path)
    info = client.get("/api/studio").json()["models"][0]
    assert (info["is_demo"], info["argument"]) == (True, "demo")
    answer = store(client, AlignmentHead(layer="decoder.layers.0.cross_attention", head=0))
    assert answer.status_code == 422
    assert "the built-in model `demo` cannot be changed" in answer.json()["error"]
    assert {file.name: file.read_bytes() for file in demo_folder().iterdir() if file.is_file()} == before


def test_a_copy_of_the_demo_is_a_model_like_others(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(demo_folder(), tmp_path / "demo"))
    client = client_of(copy)
    assert client.get("/api/studio").json()["models"][0]["is_demo"] is False
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=0)
    assert store(client, head).status_code == 200
    assert open_bundle(copy).info.alignment_heads == (head,)


def test_a_head_that_is_not_there_is_not_stored(folder: Path) -> None:
    for head in (HEAD.model_copy(update={"head": 7}), HEAD.model_copy(update={"layer": "decoder.layers.9"})):
        assert store(client_of(folder), head).status_code == 422
    assert open_bundle(folder).info.alignment_heads == ()


def test_a_model_that_changed_meanwhile_keeps_its_change(folder: Path) -> None:
    client = client_of(folder)
    other = HEAD.model_copy(update={"head": 0})
    store_alignment_heads(folder, (other,))
    answer = store(client)
    assert answer.status_code == 422
    assert "start dragoman studio again" in answer.json()["error"]
    assert open_bundle(folder).info.alignment_heads == (other,)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "has_torch", lambda: False)
    ((name, data),) = search(client_of(GOLDEN / "v1"))
    assert name == "error"
    assert "dragoman[train]" in data["error"]


def test_it_needs_the_token(client: TestClient) -> None:
    for path in ("head-search", "links", "alignment-head"):
        assert client.post(f"/api/{path}", json={}, headers={"authorization": "Bearer x"}).status_code == 401


def test_the_routes_import_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
import dragoman.studio.studio_app
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
