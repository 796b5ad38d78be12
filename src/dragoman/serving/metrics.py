"""Figures for Prometheus: how long, how many, how full. The names are part of what the service promises."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.engine import Batch

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counted as things happen, written when they are asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("dragoman_requests", "requests answered", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "dragoman_request_seconds",
            "from a request's head to its answer",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.refusals = Counter("dragoman_refusals", "requests refused, by reason", ["reason"], registry=self.registry)
        self.batch = Histogram(
            "dragoman_batch_sentences", "sentences of a batch", buckets=_SENTENCES, registry=self.registry
        )
        self.tokens = Counter("dragoman_target_tokens", "tokens written", registry=self.registry)
        self.reloads = Counter("dragoman_reloads", "reloads of the models", ["outcome"], registry=self.registry)
        self.open = Gauge("dragoman_requests_open", "requests not yet answered", registry=self.registry)

    def seen(self, batch: Batch, num_tokens: int) -> None:
        """A batch was answered."""
        self.batch.observe(len(batch.pieces))
        self.tokens.inc(num_tokens)

    def watch(self, dispatcher: Dispatcher) -> None:
        """Let the queue and the engines be read whenever somebody asks."""
        self.registry.register(_Now(dispatcher))

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)


class _Now(Collector):
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def collect(self) -> Iterator[Metric]:
        waiting, crew = self._dispatcher.waiting, self._dispatcher.crew
        yield _gauge("dragoman_queue_sentences", "sentences that no engine has yet", waiting.number)
        yield _gauge("dragoman_queue_seconds", "how long one who came now would wait, about", self._dispatcher.delay())
        yield _gauge("dragoman_engines", "engine processes that take work", len(crew.working))
        yield _gauge("dragoman_engine_restarts", "engine processes started in a dead one's place", crew.restarts)
        models = GaugeMetricFamily("dragoman_model_info", "the models, by name and hash", labels=["model", "sha256"])
        for facts in crew.facts.values():
            models.add_metric([facts.name, facts.sha256], 1)
        yield models


def _gauge(name: str, about: str, value: int | float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
