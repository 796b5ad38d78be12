"""Metrics for Prometheus. The names and labels of the metrics are part of the service's interface."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.engine_pool import SentenceBatch
from dragoman.serving.errors import RejectedError
from dragoman.serving.shared_quotas import SharedQuotas
from dragoman.version import __version__

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of a service, returned by /metrics."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("dragoman_requests", "requests answered", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "dragoman_request_seconds", "time to answer", ["route"], buckets=_SECONDS, registry=registry
        )
        self.refusals = Counter("dragoman_refusals", "requests refused, by reason", ["reason"], registry=registry)
        self.batch = Histogram(
            "dragoman_batch_sentences", "sentences of a batch", buckets=_SENTENCES, registry=registry
        )
        self.tokens = Counter("dragoman_target_tokens", "tokens written", registry=registry)
        self.characters = Counter(
            "dragoman_characters", "characters of texts that were answered", ["model", "key"], registry=registry
        )
        self.reloads = Counter("dragoman_reloads", "reloads of the models", ["outcome"], registry=registry)
        models = "the models, by name and hash"
        self.models = Gauge("dragoman_model_info", models, ["model", "sha256"], registry=registry)
        self.open = Gauge("dragoman_requests_open", "requests not yet answered", registry=registry)
        build = Gauge("dragoman_build_info", "the version of the service", ["version"], registry=registry)
        build.labels(__version__).set(1)
        # From the start at 0: a rate can only be seen from a value that was there before.
        for reason in {*RejectedError.reasons(), "invalid"}:  # that of the framework
            self.refusals.labels(reason)
        for outcome in ("done", "failed"):
            self.reloads.labels(outcome)

    def count_batch(self, batch: SentenceBatch, num_tokens: int) -> None:
        """Count the sentences and target tokens of a translated batch."""
        self.batch.observe(len(batch.sentences))
        self.tokens.inc(num_tokens)

    def count_request(self, route: str, status: int, seconds: float, fields: dict[str, Any]) -> None:
        """Count an answered request; `fields` are those of its line in the log."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        if fields.get("refused"):
            self.refusals.labels(fields["refused"]).inc()
        elif status == 200 and "characters" in fields:
            self.characters.labels(fields.get("model", ""), fields.get("key", "")).inc(fields["characters"])

    def watch(self, dispatcher: Dispatcher) -> None:
        """Add the state of the queue and the engines, and their counts."""
        self._pool = pool = dispatcher.pool
        states: dict[str, tuple[str, Callable[[], float]]] = {
            "queue_sentences": ("sentences that no engine has yet", lambda: dispatcher.queue.length),
            "queue_seconds": ("estimated wait of a request that came now", dispatcher.delay),
            "engines": ("engine processes that take work", lambda: len(pool.working)),
        }
        for name, (about, value) in states.items():
            Gauge(f"dragoman_{name}", about, registry=self.registry).set_function(value)
        self._count("engine_restarts", "engine processes started in place of dead ones", lambda: pool.restarts)
        self._count("model_changes", "models that a reload replaced by others", lambda: pool.num_changed)
        self._count("engine_cancellations", "engines freed of work nobody awaited", lambda: pool.num_cancelled)

    def watch_log(self, num_dropped: Callable[[], float]) -> None:
        """Count the log lines that could not be written."""
        self._count("log_lines_dropped", "log lines that could not be written", num_dropped)

    def watch_quotas(self, quotas: SharedQuotas) -> None:
        """Add a gauge that is 0 while shared quotas cannot be reached."""
        about = "1 if quotas are counted in Redis, 0 while Redis cannot be reached"
        Gauge("dragoman_quotas_shared", about, registry=self.registry).set_function(lambda: quotas.is_reached)

    def _count(self, name: str, about: str, value: Callable[[], float]) -> None:
        self.registry.register(_Count(f"dragoman_{name}", about, value))

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        self.models.clear()
        for model in self._pool.models.values():
            self.models.labels(model.name, model.sha256).set(1)
        return generate_latest(self.registry)


class _Count(Collector):
    """A counter whose value another object keeps."""

    def __init__(self, name: str, about: str, value: Callable[[], float]) -> None:
        self._name, self._about, self._value = name, about, value

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counter with its present value."""
        yield CounterMetricFamily(self._name, self._about, value=self._value())
