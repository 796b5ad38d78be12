"""Metrics for Prometheus. The names and labels of the metrics are part of the service's interface."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.engine_pool import SentenceBatch

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
        self.reloads = Counter("dragoman_reloads", "reloads of the models", ["outcome"], registry=registry)
        models = "the models, by name and hash"
        self.models = Gauge("dragoman_model_info", models, ["model", "sha256"], registry=registry)
        self.open = Gauge("dragoman_requests_open", "requests not yet answered", registry=registry)

    def count_batch(self, batch: SentenceBatch, num_tokens: int) -> None:
        """Count the sentences and target tokens of a translated batch."""
        self.batch.observe(len(batch.sentences))
        self.tokens.inc(num_tokens)

    def watch(self, dispatcher: Dispatcher) -> None:
        """Add gauges for the queue and the engines."""
        self._pool = pool = dispatcher.pool
        states: dict[str, tuple[str, Callable[[], float]]] = {
            "queue_sentences": ("sentences that no engine has yet", lambda: dispatcher.queue.length),
            "queue_seconds": ("estimated wait of a request that came now", dispatcher.delay),
            "engines": ("engine processes that take work", lambda: len(pool.working)),
            "engine_restarts": ("engine processes started in place of dead ones", lambda: pool.restarts),
            "model_changes": ("models that a reload replaced by others", lambda: pool.num_changed),
            "engine_cancellations": ("engines freed of work that nobody awaited", lambda: pool.num_cancelled),
        }
        for name, (about, value) in states.items():
            Gauge(f"dragoman_{name}", about, registry=self.registry).set_function(value)

    def watch_log(self, num_dropped: Callable[[], float]) -> None:
        """Add a gauge for the log lines that could not be written."""
        about = "log lines that could not be written"
        Gauge("dragoman_log_lines_dropped", about, registry=self.registry).set_function(num_dropped)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        self.models.clear()
        for model in self._pool.models.values():
            self.models.labels(model.name, model.sha256).set(1)
        return generate_latest(self.registry)
