"""OpenTelemetry spans of requests: the request, its time in the queue and its time in an engine.

They are sent if the usual variables say so, such as OTEL_EXPORTER_OTLP_ENDPOINT. The packages are imported only then.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, Protocol, runtime_checkable

from dragoman.serving.config import LogEvent
from dragoman.version import __version__

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
REPEAT_SECONDS: Final = 10.0
"""Seconds for which the problems of the exporter are not logged again."""
CLOSE_SECONDS: Final = 2.0
"""Seconds at the end for the collector to take the last spans."""
SERVER_ERROR: Final = 500


@runtime_checkable
class Work(Protocol):
    """A sentence that an engine has translated."""

    queued_at: float
    cost: int
    span: "RequestSpan | None"


class RequestSpan:
    """The span of a request, to which spans for its work are added."""

    def __init__(self, tracer: Any, span: Any, context: Any) -> None:
        self._tracer, self._span, self._context = tracer, span, context

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """The header that names this span."""
        context = self._span.get_span_context()
        return f"00-{self.trace_id}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def add(self, name: str, begin_ns: int, end_ns: int, attributes: Mapping[str, int]) -> None:
        """Add a span within that of the request."""
        span = self._tracer.start_span(name, self._context, start_time=begin_ns, attributes=attributes)
        span.end(end_ns)

    def end(self, name: str, status: int, attributes: Mapping[str, Any]) -> None:
        """End the span with the status of the response."""
        from opentelemetry.trace import StatusCode

        self._span.update_name(name)
        self._span.set_attributes({key: value for key, value in attributes.items() if value is not None})
        if status >= SERVER_ERROR:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


REQUEST_SPAN: Final[ContextVar[RequestSpan | None]] = ContextVar("request_span", default=None)
"""The span of the current request."""


def add_work_spans(sentences: Sequence[Work], seconds: float, now: float) -> None:
    """Add the spans `queue` and `engine` of a batch to each of its requests; times are on the event loop's clock."""
    by_span: dict[RequestSpan, list[Work]] = {}
    for sentence in sentences:
        if sentence.span is not None:
            by_span.setdefault(sentence.span, []).append(sentence)
    end = time.time_ns()
    begin = end - round(1e9 * seconds)
    for span, some in by_span.items():
        attributes = {"sentences": len(some), "tokens": sum(sentence.cost for sentence in some)}
        queued_at = end - round(1e9 * (now - min(sentence.queued_at for sentence in some)))
        span.add("queue", min(queued_at, begin), begin, attributes)
        span.add("engine", begin, end, attributes | {"batch_sentences": len(sentences)})


class Tracing:
    """Sends spans to a collector, in the background; spans that it cannot take are dropped."""

    def __init__(self, exporter: Any) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        name = os.environ.get("OTEL_SERVICE_NAME", "dragoman")
        resource = Resource.create({"service.name": name, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dragoman", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @staticmethod
    def from_environment(log: LogEvent) -> "Tracing | None":
        """Return the tracing that the OTEL_ variables ask for; None if they do not, or if a package is missing."""
        if not _is_requested():
            return None
        protocol = next((os.environ[name] for name in PROTOCOLS if name in os.environ), "http/protobuf")
        kind = "grpc" if protocol == "grpc" else "http"
        try:
            module = import_module(f"opentelemetry.exporter.otlp.proto.{kind}.trace_exporter")
            logger = logging.getLogger("opentelemetry")
            logger.propagate = False
            logger.handlers = [_ToServiceLog(log)]
            return Tracing(module.OTLPSpanExporter())
        except ModuleNotFoundError as error:
            fix = "install opentelemetry-exporter-otlp-proto-grpc" if kind == "grpc" else "install 'dragoman[otel]'"
            log("tracing off", level="warning", reason=f"the package {error.name} is missing: {fix}")
            return None

    def start(self, name: str, headers: Mapping[str, str]) -> RequestSpan:
        """Start the span of a request, within the span that its headers name, if any."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._propagator.extract(dict(headers))
        span = self._tracer.start_span(name, parent, kind=SpanKind.SERVER)
        return RequestSpan(self._tracer, span, set_span_in_context(span))

    def close(self) -> None:
        """Send the last spans, within CLOSE_SECONDS."""
        thread = threading.Thread(target=self._provider.shutdown, daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)


def _is_requested() -> bool:
    environment = os.environ
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER")
    return exporter == "otlp" or (exporter is None and any(environment.get(name) for name in ENDPOINTS))


class _ToServiceLog(logging.Handler):
    """Writes problems of the exporter to the log of the service, one in REPEAT_SECONDS."""

    def __init__(self, log: LogEvent) -> None:
        super().__init__(logging.WARNING)
        self._log, self._next_at = log, 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + REPEAT_SECONDS
            self._log("tracing", level="warning", reason=record.getMessage()[:200])
