"""The studio's API: who may use it, and that a trace over HTTP is that of Python."""

import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from safetensors.numpy import load as from_safetensors

from dragoman.attention.kinds import Kind
from dragoman.bundle import demo_folder
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.inspection.cell import CellExplanation, describe_cell
from dragoman.inspection.explanation import explain
from dragoman.inspection.heads import HeadSummary, summarise_heads
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervene import counterfactual
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.trace import Trace
from dragoman.studio import tracing
from dragoman.studio.studio_app import PREFIX_TEXT, TRACE_ID, create_app
from dragoman.studio.tracing import StudioModel, TraceCache, UnknownTraceError
from dragoman.translation.export_check import export_bundle

GOLDEN = Path(__file__).parents[2] / "golden"
TOKEN = "a-token"
TEXT = "two red dogs."
CROSS = "decoder.layers.0.cross_attention"
HOSTS = frozenset({"127.0.0.1:5100", "localhost:5100"})


@pytest.fixture(scope="module")
def app() -> object:
    return create_app({"v1": StudioModel("v1", GOLDEN / "v1")}, TOKEN, HOSTS)


@pytest.fixture(scope="module")
def inspector() -> Inspector:
    return Inspector.load(GOLDEN / "v1")


@pytest.fixture
def client(app: object) -> TestClient:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return TestClient(app, "http://127.0.0.1:5100", headers=headers)  # type: ignore[arg-type]


def read(content: bytes, folder: Path) -> Trace:
    (folder / "a.trace").write_bytes(content)
    return Trace.load(folder / "a.trace")


def traced(client: TestClient, folder: Path, **fields: object) -> Trace:
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT, **fields})
    assert response.status_code == 200, response.text
    return read(response.content, folder)


# Who may use it


@pytest.mark.parametrize("path", ["/", "/studio.js", "/api/studio"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:5100", ""])
def test_another_host_name_is_refused(client: TestClient, path: str, host: str) -> None:
    assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:80", "https://127.0.0.1:5100"])
def test_another_origin_is_refused(client: TestClient, origin: str) -> None:
    assert client.post("/api/traces", json={}, headers={"origin": origin}).status_code == 403
    assert client.get("/", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_the_api_needs_the_token(client: TestClient, token: str) -> None:
    for response in (
        client.get("/api/studio", headers={"authorization": token}),
        client.post("/api/traces", json={"model": "v1", "source": TEXT}, headers={"authorization": token}),
        client.get("/api/traces/0/heads", headers={"authorization": token}),
        client.get("/api/none", headers={"authorization": token}),
    ):
        assert response.status_code == 401


def test_the_own_page_is_let_in(client: TestClient) -> None:
    for host in HOSTS:
        own = {"host": host, "origin": f"http://{host}"}
        assert client.get("/api/studio", headers=own).json()["models"][0]["name"] == "v1"


@pytest.mark.parametrize("path", ["/", "/parts.js", "/api/studio", "/none", "/api/traces/none/heads"])
def test_every_answer_has_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert client.get(path, headers={"host": "evil.example"}).headers["content-security-policy"] == policy


# What it answers


def test_a_trace_over_http_is_that_of_python(client: TestClient, inspector: Inspector, tmp_path: Path) -> None:
    over_http, here = traced(client, tmp_path), inspector.trace(TEXT, history=True)
    assert (over_http.target, over_http.model, over_http.history) == (here.target, here.model, here.history)
    np.testing.assert_array_equal(over_http.log_probabilities, here.log_probabilities)
    for name, weights in here.attention.items():
        np.testing.assert_array_equal(over_http.attention[name], weights.astype(np.float16))


def test_a_given_translation_is_forced(client: TestClient, tmp_path: Path) -> None:
    trace = traced(client, tmp_path, target="zwei Hunde")
    assert (trace.free, trace.target.text, trace.history) == (False, "zwei Hunde", ())


def test_heads_off_change_the_translation_as_in_python(
    client: TestClient, inspector: Inspector, tmp_path: Path
) -> None:
    change = HeadsOff(where=CROSS, heads=(0,))
    over_http = traced(client, tmp_path, interventions=[change.model_dump()])
    here = inspector.trace(TEXT, interventions=[change])
    assert over_http.target == here.target
    np.testing.assert_array_equal(over_http.log_probabilities, here.log_probabilities)
    assert abs(over_http.log_probabilities.sum() - inspector.trace(TEXT).log_probabilities.sum()) > 0.01


def test_forced_tokens_begin_the_translation(client: TestClient, inspector: Inspector, tmp_path: Path) -> None:
    prefix = inspector.tokenize_target("drei").ids[:-1]
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT, "prefix": prefix})
    trace = read(response.content, tmp_path)
    assert trace.target.text.startswith("drei")
    assert trace.num_forced == len(prefix)
    assert unquote(response.headers[PREFIX_TEXT]) == "drei"


def test_tokens_that_no_text_is_cut_into_have_no_text(client: TestClient, inspector: Inspector) -> None:
    subwords = inspector.vocab.target
    whole = next(token for token in range(4, subwords.size) if len(subwords.piece(token)) > 3)
    letters = [token for token in range(4, subwords.size) if len(subwords.piece(token)) == 1]
    spelled = [next((token for token in letters if subwords.piece(token) == letter), 0) for letter in "un"]
    assert whole
    assert all(spelled)
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT, "prefix": spelled})
    assert response.status_code == 200
    assert (PREFIX_TEXT in response.headers) == (subwords.encode(["un"]).ids.tolist()[:-1] == spelled)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_beam_size_is_that_of_the_search(client: TestClient, tmp_path: Path, beam_size: int) -> None:
    history = traced(client, tmp_path, beam_size=beam_size).history
    assert max(sum(candidate.place is not None for candidate in step) for step in history) == beam_size


def test_the_roles_and_the_counterfactual_are_those_of_python(client: TestClient, inspector: Inspector) -> None:
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT})
    path = f"/api/traces/{response.headers[TRACE_ID]}"
    here = inspector.trace(TEXT)
    heads = client.get(f"{path}/heads").json()["heads"]
    assert [HeadSummary.model_validate(head) for head in heads] == summarise_heads([here])
    assert client.get(f"{path}/counterfactual").json() == counterfactual(inspector.model, here)._asdict()


def test_the_vectors_of_a_head_give_its_weights(client: TestClient, inspector: Inspector) -> None:
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT})
    path = f"/api/traces/{response.headers[TRACE_ID]}/vectors"
    vectors = from_safetensors(client.get(path, params={"name": CROSS, "head": 1}).content)
    scores = vectors["query"] @ vectors["key"].T / np.sqrt(vectors["query"].shape[-1])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, inspector.trace(TEXT).attention[CROSS][1], atol=1e-5)
    assert client.get(path, params={"name": CROSS, "head": 9}).status_code == 422
    assert client.get(path, params={"name": "none", "head": 0}).status_code == 422


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_the_arithmetic_of_a_cell_is_that_of_explain(client: TestClient, inspector: Inspector, kind: Kind) -> None:
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT})
    name = inspector.trace(TEXT).names(kind)[0]
    path = f"/api/traces/{response.headers[TRACE_ID]}/explanation"
    found = client.get(path, params={"name": name, "row": 2, "head": 1, "key": 1})
    here = describe_cell(explain(inspector, TEXT, kind=kind, row=2, head=1, key=1))
    assert CellExplanation.model_validate_json(found.content) == here
    chosen = client.get(path, params={"name": name, "row": 2}).json()
    assert chosen["head"] == explain(inspector, TEXT, kind=kind, row=2).head
    for wrong in ({"row": 99}, {"row": 0, "head": 9}, {"row": 0, "key": 99}, {"row": 0, "name": "none"}, {"row": "x"}):
        assert client.get(path, params={"name": name, **wrong}).status_code == 422


def test_a_cell_of_a_changed_model_is_explained_without_the_changes(client: TestClient, inspector: Inspector) -> None:
    change = HeadsOff(where=CROSS, heads=(0,)).model_dump()
    fields = {"model": "v1", "source": TEXT, "target": "zwei Hunde", "interventions": [change]}
    response = client.post("/api/traces", json=fields)
    path = f"/api/traces/{response.headers[TRACE_ID]}/explanation"
    found = client.get(path, params={"name": CROSS, "row": 1, "head": 0}).json()
    here = describe_cell(explain(inspector, TEXT, "zwei Hunde", kind="cross", row=1, head=0))
    assert [key["weight"] for key in found["keys"]] == [key.weight for key in here.keys]
    assert sum(key["weight"] for key in found["keys"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "none"},
        {"source": " "},
        {"source": "a" * 5001},
        {"prefix": [10**9]},
        {"prefix": [1]},
        {"interventions": [{"do": "off", "where": "none"}]},
        {"interventions": [{"do": "off", "where": CROSS, "heads": [9]}]},
        {"beam_size": 0},
        {"another": 1},
    ],
)
def test_a_wrong_request_is_answered_with_one_sentence(client: TestClient, fields: dict[str, object]) -> None:
    response = client.post("/api/traces", json={"model": "v1", "source": TEXT, **fields})
    assert response.status_code == 422
    assert response.json()["error"].count("\n") == 0


def test_an_unknown_trace_is_not_found(client: TestClient) -> None:
    for part in ("heads", "counterfactual", "vectors?name=a&head=0", "explanation?name=a&row=0"):
        assert client.get(f"/api/traces/0123/{part}").status_code == 404


def test_only_the_last_traces_are_kept() -> None:
    model, cache = StudioModel("v1", GOLDEN / "v1"), TraceCache(most=2)
    ids = [
        cache.trace(model, tracing.TraceRequest(model="v1", source=text))[0]
        for text in ("two dogs.", "red dogs.", "two dogs.", "four dogs.")
    ]
    assert ids[0] == ids[2]
    assert cache.find(ids[0]).trace.source.text == "two dogs."
    with pytest.raises(UnknownTraceError):
        cache.find(ids[1])


# Without torch


@pytest.mark.slow
def test_without_torch_the_alignment_head_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(shutil.copytree(demo_folder(), tmp_path / "model"))
    store_alignment_heads(folder, (AlignmentHead(layer=CROSS, head=2, rows="read"),))
    export_bundle(folder, "float32", ["Where is the dog?"])
    monkeypatch.setattr(tracing, "has_torch", lambda: False)
    monkeypatch.setattr("dragoman.studio.studio_app.has_torch", lambda: False)
    client = without_torch(folder)
    assert client.get("/api/studio").json()["has_torch"] is False
    response = client.post("/api/traces", json={"model": "model", "source": "A dog runs."})
    trace = read(response.content, tmp_path)
    assert [(name, len(heads)) for name, heads in trace.attention.items()] == [(f"{CROSS}.2", 1)]
    path = f"/api/traces/{response.headers[TRACE_ID]}"
    assert client.get(f"{path}/heads").status_code == 200
    refused = [
        client.get(f"{path}/counterfactual"),
        client.get(f"{path}/explanation", params={"name": f"{CROSS}.2", "row": 0}),
        client.post("/api/traces", json={"model": "model", "source": "A dog.", "prefix": [9]}),
    ]
    for response in refused:
        assert response.status_code == 422
        assert "dragoman[train]" in response.json()["error"]


def test_without_torch_and_without_a_head_to_show_the_answer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "has_torch", lambda: False)
    response = without_torch(GOLDEN / "v1").post("/api/traces", json={"model": "model", "source": TEXT})
    assert response.status_code == 422
    assert "dragoman[train]" in response.json()["error"]


def without_torch(folder: Path) -> TestClient:
    app = create_app({"model": StudioModel("model", folder)}, TOKEN, HOSTS)
    return TestClient(app, "http://127.0.0.1:5100", headers={"authorization": f"Bearer {TOKEN}"})
