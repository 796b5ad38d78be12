"""OpenTelemetry spans of a service, sent to a collector over HTTP."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from service_process import start_service, wait_until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"texts": "Where is the station? My friend has two dogs.", "source": "en", "target": "de"}


class Collector:
    """Takes spans at a port of its own."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append(ExportTraceServiceRequest.FromString(content))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def spans(self) -> list[Any]:
        resources = [one for request in self.requests for one in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    running = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield running
    running.server.shutdown()
    running.server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.int_value or one.value.string_value for one in span.attributes}


def test_a_request_has_spans_for_itself_the_queue_and_the_engine(collector: Collector) -> None:
    with start_service("demo", "--engines", "1") as service:
        sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}
        answer = httpx.post(f"{service.url}/v1/translate", json=BODY, headers=sent, timeout=120)
        httpx.get(f"{service.url}/health/ready")
        assert httpx.post(f"{service.url}/v1/translate", json={}, timeout=60).status_code == 422
        assert wait_until(lambda: len(collector.spans) >= 4, 30)
        [line] = [one for one in service.log if one.get("id") == "mine"]
    names = {"POST /v1/translate", "queue", "engine"}
    spans = {span.name: span for span in collector.spans if span.trace_id.hex() == TRACE}
    assert set(spans) == names
    request = spans["POST /v1/translate"]
    assert request.parent_span_id.hex() == PARENT
    assert answer.headers["traceparent"] == f"00-{TRACE}-{request.span_id.hex()}-01"
    assert line["trace"] == TRACE
    assert attributes(request)["dragoman.request_id"] == "mine"
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(spans["engine"])["sentences"] == 2
    for name in ("queue", "engine"):
        assert spans[name].parent_span_id == request.span_id
        assert request.start_time_unix_nano <= spans[name].start_time_unix_nano <= spans[name].end_time_unix_nano
    assert spans["queue"].end_time_unix_nano <= spans["engine"].start_time_unix_nano
    [refused] = [span for span in collector.spans if span.trace_id.hex() != TRACE]  # and the health check has none
    assert (refused.name, attributes(refused)["http.response.status_code"]) == ("POST /v1/translate", 422)
    service_name = attributes(collector.requests[0].resource_spans[0].resource)["service.name"]
    assert service_name == "dragoman"


def test_a_collector_that_is_gone_costs_no_request_and_hardly_a_second(collector: Collector) -> None:
    collector.server.shutdown()
    collector.server.server_close()
    with start_service("demo", "--engines", "1") as service:
        assert httpx.post(f"{service.url}/v1/translate", json=BODY, timeout=120).status_code == 200
        assert service.wait_for_event("tracing", seconds=60)["level"] == "warning"
        begin = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - begin < 30
    assert all(line.startswith("{") for line in service.lines)
