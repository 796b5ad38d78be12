"""Whether it is alive and ready, and how it is doing."""

import re

import pytest
from house import House, Still, facts
from prometheus_client.parser import text_string_to_metric_families

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
    "dragoman_model_info",
}


def test_it_lives_before_it_is_ready_and_until_it_has_stopped(idle: House) -> None:
    def health() -> list[tuple[int, str]]:
        answers = [idle.ask("GET", path) for path in ("/health/live", "/health/ready", "/health")]
        return [(answer.status_code, answer.json()["status"]) for answer in answers]

    assert health() == [(200, "ok"), (503, "starting"), (503, "starting")]
    idle.crew.engines.append(Still())
    assert health() == [(200, "ok")] * 3
    idle.service.draining = True
    assert health() == [(200, "ok"), (503, "stopping"), (503, "stopping")]


def test_its_figures_are_what_prometheus_reads_under_names_that_stay(idle: House) -> None:
    idle.crew.engines.append(Still())
    idle.crew.facts = {"toy": facts()}
    answer = idle.ask("GET", "/metrics")
    assert re.match(r"text/plain; version=0\.0\.4; charset=utf-8$", answer.headers["content-type"])
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {name for name in families if not name.endswith("_created")} == NAMES
    (model,) = families["dragoman_model_info"].samples
    assert model.labels == {"model": "toy", "sha256": "0" * 64}
    assert families["dragoman_engines"].samples[0].value == 1
    idle.crew.engines[0].leaving = True
    assert idle.metrics.registry.get_sample_value("dragoman_engines") == 0


@pytest.mark.slow
def test_what_happens_is_counted(small: House) -> None:
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


def test_a_path_that_is_no_route_does_not_become_a_label(idle: House) -> None:
    for number in range(20):
        idle.ask("GET", f"/{number}")
    assert idle.metrics.registry.get_sample_value("dragoman_requests_total", {"route": "other", "status": "404"}) == 20
