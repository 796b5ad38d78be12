"""The application as a whole: its OpenAPI document, cross-origin requests, health, metrics and the page."""

import re
from importlib.resources import files
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service_harness import FakeEngine, ServiceHarness, model_info

from dragoman.api_schemas import ServiceRequest
from dragoman.serving import languages
from dragoman.serving.app import KEYLESS, PAGE, create_app
from dragoman.serving.config import Limits
from dragoman.serving.errors import LibreTranslateError, ProblemDetails
from dragoman.serving.keys import ApiKey, generate_key
from dragoman.serving.prometheus import Metrics
from dragoman.version import __version__

SITE = "https://example.org"


@pytest.fixture
def document(idle: ServiceHarness) -> dict[str, Any]:
    found: dict[str, Any] = idle.request("GET", "/openapi.json").json()
    assert idle.request("GET", "/openapi.json").json() == found
    return found


def test_every_route_is_documented_with_its_failures(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.")
    assert document["info"]["version"] == __version__
    shapes = document["components"]["schemas"]
    for shape in (ProblemDetails, LibreTranslateError):
        assert set(shapes[shape.__name__]["properties"]) == set(shape.model_fields)
    for path, kind, shape in (
        ("/v1/translate", "application/problem+json", "ProblemDetails"),
        ("/translate", "application/json", "LibreTranslateError"),
    ):
        route = document["paths"][path]["post"]
        assert route["summary"]
        assert {"200", "400", "401", "404", "413", "429", "500", "503"} <= set(route["responses"])
        for status, response in route["responses"].items():
            if status != "200":
                assert response["content"] == {kind: {"schema": {"$ref": f"#/components/schemas/{shape}"}}}, status


def test_every_field_is_documented_and_the_examples_are_valid(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["ServiceRequest"]["properties"]
    assert [name for name, field in fields.items() if "description" not in field and "$ref" not in field] == []
    example = {name: field["examples"][0] for name, field in fields.items() if "examples" in field}
    assert {"texts", "model", "source", "target", "prefix"} <= set(example)
    assert ServiceRequest.model_validate(example).texts == example["texts"]


def preflight(harness: ServiceHarness, app: Any, origin: str) -> Any:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,authorization",
    }
    return harness.request("OPTIONS", "/v1/translate", app, headers=headers)


def test_an_allowed_origin_may_send_and_read(idle: ServiceHarness) -> None:
    app = idle.create_app(origins=(SITE,))
    allowed = preflight(idle, app, SITE)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == SITE
    assert "access-control-allow-credentials" not in allowed.headers
    answer = idle.request("GET", "/v1/models", app, headers={"origin": SITE})
    assert answer.headers["access-control-allow-origin"] == SITE
    assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize(
    "origin", ["https://elsewhere.org", "http://example.org", "https://example.org.evil.org", "null"]
)
@pytest.mark.parametrize("origins", [(), (SITE,)])
def test_no_other_origin_may(idle: ServiceHarness, origin: str, origins: tuple[str, ...]) -> None:
    app = idle.create_app(origins=origins)
    assert preflight(idle, app, origin).status_code == 403
    for answer in (preflight(idle, app, origin), idle.request("GET", "/v1/models", app, headers={"origin": origin})):
        assert "access-control-allow-origin" not in answer.headers


NAMES = {
    "dragoman_requests",
    "dragoman_request_seconds",
    "dragoman_refusals",
    "dragoman_batch_sentences",
    "dragoman_target_tokens",
    "dragoman_reloads",
    "dragoman_requests_open",
    "dragoman_queue_sentences",
    "dragoman_queue_seconds",
    "dragoman_engines",
    "dragoman_engine_restarts",
    "dragoman_engine_cancellations",
    "dragoman_model_changes",
    "dragoman_model_info",
    "dragoman_characters",
    "dragoman_build_info",
}


def test_health_shows_live_ready_starting_and_stopping(idle: ServiceHarness) -> None:
    def health() -> list[tuple[int, str]]:
        answers = [idle.request("GET", path) for path in ("/health/live", "/health/ready", "/health")]
        return [(answer.status_code, answer.json()["status"]) for answer in answers]

    assert health() == [(200, "ok"), (503, "starting"), (503, "starting")]
    idle.pool.engines.append(FakeEngine())
    assert health() == [(200, "ok")] * 3
    idle.service.is_draining = True
    assert health() == [(200, "ok"), (503, "stopping"), (503, "stopping")]


def test_metrics_have_prometheus_format_and_fixed_names(idle: ServiceHarness) -> None:
    idle.pool.engines.append(FakeEngine())
    idle.pool.models = {"toy": model_info()}
    answer = idle.request("GET", "/metrics")
    assert re.match(r"text/plain; version=0\.0\.4; charset=utf-8$", answer.headers["content-type"])
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {name for name in families if not name.endswith("_created")} == NAMES
    (model,) = families["dragoman_model_info"].samples
    assert model.labels == {"model": "toy", "sha256": "0" * 64}
    assert families["dragoman_engines"].samples[0].value == 1
    idle.pool.engines[0].is_leaving = True
    assert idle.metrics.registry.get_sample_value("dragoman_engines") == 0
    counters = {name for name, family in families.items() if family.type == "counter"}
    assert {f"dragoman_{name}" for name in ("engine_restarts", "engine_cancellations", "model_changes")} <= counters


def test_refusals_and_reloads_are_there_before_the_first_one() -> None:
    """An alert on a rate does not see a counter that appears with its first event."""
    registry = Metrics().registry
    for reason in ("busy", "limited", "toolarge", "invalid", "broken"):
        assert registry.get_sample_value("dragoman_refusals_total", {"reason": reason}) == 0
    for outcome in ("done", "failed"):
        assert registry.get_sample_value("dragoman_reloads_total", {"outcome": outcome}) == 0


def test_metrics_need_a_key_that_may_read_them(idle: ServiceHarness) -> None:
    idle.pool.models = {"toy": model_info()}
    (customer, customers), (prometheus, own) = generate_key(), generate_key()
    app = idle.create_app([ApiKey(name="shop", sha256=customers), ApiKey(name="us", sha256=own, metrics=True)])

    def status(key: str) -> int:
        return idle.request("GET", "/metrics", app, headers={"x-api-key": key}).status_code

    assert [status(key) for key in (customer, prometheus, "wrong")] == [403, 200, 401]


@pytest.mark.slow
def test_requests_batches_and_tokens_are_counted(small: ServiceHarness) -> None:
    def value(name: str, **labels: str) -> float:
        return small.metrics.registry.get_sample_value(name, labels) or 0.0

    def counted() -> list[float]:
        return [
            value("dragoman_requests_total", route="/v1/translate", status="200"),
            value("dragoman_requests_total", route="/v1/translate", status="404"),
            value("dragoman_refusals_total", reason="unknownmodel"),
            value("dragoman_request_seconds_count", route="/v1/translate"),
            value("dragoman_batch_sentences_sum"),
            value("dragoman_queue_sentences"),
        ]

    before, tokens = counted(), value("dragoman_target_tokens_total")
    assert small.post("/v1/translate", texts=["two red dogs.", "ten old houses."]).status_code == 200
    assert small.post("/v1/translate", texts="a", model="none").status_code == 404
    assert [after - old for after, old in zip(counted(), before, strict=True)] == [1, 1, 1, 2, 2, 0]
    assert value("dragoman_target_tokens_total") - tokens >= 8


@pytest.mark.slow
def test_characters_are_counted_by_model_and_key(small: ServiceHarness) -> None:
    key, sha256 = generate_key()
    app = small.create_app([ApiKey(name="counted", sha256=sha256)])  # other tests use other keys

    def post(**content: Any) -> int:
        headers = {"x-api-key": key}
        return small.request("POST", "/v1/translate", app, json=content, headers=headers).status_code

    assert [post(texts=["two red dogs."]), post(texts="a", model="none")] == [200, 404]
    labels = {"model": next(iter(small.service.models)), "key": "counted"}
    assert small.metrics.registry.get_sample_value("dragoman_characters_total", labels) == 13


def test_an_unknown_path_does_not_become_a_label(idle: ServiceHarness) -> None:
    for number in range(20):
        idle.request("GET", f"/{number}")
    assert idle.metrics.registry.get_sample_value("dragoman_requests_total", {"route": "other", "status": "404"}) == 20


@pytest.mark.parametrize("path", PAGE)
def test_the_page_is_sent_with_its_media_types(idle: ServiceHarness, path: str) -> None:
    answer = idle.request("GET", path)
    assert answer.status_code == 200
    name, media_type = PAGE[path]
    assert answer.headers["content-type"] == f"{media_type}; charset=utf-8"
    assert answer.content == (files("dragoman.studio") / "static" / name).read_bytes()


def test_the_page_loads_only_its_files_and_has_no_inline_script_or_style(idle: ServiceHarness) -> None:
    page = idle.request("GET", "/").text
    assert sorted(re.findall(r'(?:src|href)="([^"]*)"', page)) == ["data:,", "page.css", "page.js"]  # no icon
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script>|javascript:", page)
    for path in ("/page.css", "/page.js"):
        text = re.sub(
            r"https?://(www\.w3\.org|svelte\.dev/e)/", "", idle.request("GET", path).text
        )  # names, not fetched
        assert not re.search(r"https?://|@import|url\(|\bimport\b", text)


def test_the_page_inserts_text_never_markup(idle: ServiceHarness) -> None:
    script = idle.request("GET", "/page.js").text
    assert not re.search(r"\.innerHTML|\.outerHTML|insertAdjacent|document\.write|eval\(|Function\(", script)
    assert "textContent" in script


KEY, SHA256 = generate_key()


def test_the_openapi_document_has_the_limits_of_the_service(idle: ServiceHarness) -> None:
    app = idle.create_app(limits=Limits(texts=7, characters=1234, num_best=3, beam_size=5, glossary_terms=9))
    document = idle.request("GET", "/openapi.json", app).json()
    ours = document["components"]["schemas"]["ServiceRequest"]["properties"]
    text, texts = sorted(ours["texts"]["anyOf"], key=lambda shape: shape["type"], reverse=True)
    assert (text["maxLength"], texts["maxItems"]) == (1234, 7)
    assert (ours["num_best"]["maximum"], ours["prefix"]["maxLength"]) == (3, 1234)
    assert [shape.get("maxProperties") for shape in ours["glossary"]["anyOf"]] == [None, 9, None]
    assert [shape.get("maximum") for shape in ours["beam_size"]["anyOf"]] == [5, None]
    for content in document["paths"]["/translate"]["post"]["requestBody"]["content"].values():
        shapes = content["schema"]["properties"]["alternatives"]["anyOf"]
        assert [shape.get("maximum") for shape in shapes] == [2, None]


@pytest.mark.parametrize("needed", [True, False])
def test_the_openapi_document_shows_where_a_key_is_needed(idle: ServiceHarness, needed: bool) -> None:
    app = idle.create_app([ApiKey(name="a", sha256=SHA256)] if needed else None)
    document = idle.request("GET", "/openapi.json", app, headers={"x-api-key": KEY}).json()
    secured = {path for path, routes in document["paths"].items() for route in routes.values() if "security" in route}
    assert secured == (set(document["paths"]) - set(KEYLESS) if needed else set())
    assert ("securitySchemes" in document["components"]) == needed


def test_languages_are_detected_from_the_first_request_on_without_loading(idle: ServiceHarness) -> None:
    languages._identifier.cache_clear()

    async def start() -> None:
        app = create_app(idle.service)
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> dict[str, str]:
            return next(messages)

        async def send(message: dict[str, str]) -> None:
            assert message["type"].endswith("complete"), message

        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    idle.run(start())
    assert languages._identifier.cache_info().currsize == 1
