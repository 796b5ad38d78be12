"""A service in the test's process, without a socket: the real routes and queue, and real engine processes.

For tests of timing: engines that answer when the test lets them, and an event loop whose clock jumps.
"""

import asyncio
import contextlib
import dataclasses
import io
import json
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import Mock

import httpx
from starlette.types import ASGIApp

from dragoman.api_schemas import ModelInfo
from dragoman.bundle import Card, open_bundle, write_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.serving.app import create_app
from dragoman.serving.config import Limits, ServiceConfig
from dragoman.serving.engine_pool import EngineHandle, QueuedSentence
from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.fork_server import ForkedProcess
from dragoman.serving.keys import ApiKey, KeyRing
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service

PATIENCE_S = 300.0
"""On a busy machine everything takes long, and nothing here is about speed."""

T = TypeVar("T")

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


def write_model(folder: Path, title: str, stop: str = "count", aligns: bool = True) -> Path:
    """Write the golden model with an export, and an alignment head if it `aligns`.

    Each title gives another hash, by a longer length limit.
    """
    from dragoman.translation.export_check import export_bundle

    golden = open_bundle(GOLDEN)
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read")
    search = {**golden.info.search, "stop": stop, "max_length": {"ratio": 1.0, "extra": 50 + len(title)}}
    info = golden.info.model_copy(update={"search": search, "alignment_heads": (head,) if aligns else ()})
    card: Card = golden.card.model_copy(update={"title": title})
    write_bundle(folder, info, golden.weights(), golden.vocab, card)
    export_bundle(folder, texts=["two red dogs.", "ten old houses."], keep=False)
    return folder


class ServiceHarness:
    """A service and its engines, until it is closed."""

    def __init__(self, models: Mapping[str, Path], num_engines: int = 1, limits: Limits | None = None) -> None:
        self.runner = asyncio.Runner()
        self.limits = limits or Limits(wait=PATIENCE_S, seconds=PATIENCE_S, engine_seconds=PATIENCE_S)
        self.events: list[dict[str, Any]] = []
        """Events of the engine pool."""
        config = ServiceConfig(models, engines=num_engines, limits=self.limits)
        service = Service.create(config, self._on_event)
        self._log = io.StringIO()
        self.service = dataclasses.replace(service, log=JsonLog(self._log))
        self.dispatcher = self.service.dispatcher
        self.pool = self.dispatcher.pool
        self.metrics = self.service.metrics
        self.app = self.create_app()

    def create_app(self, keys: list[ApiKey] | None = None, limits: Limits | None = None, **settings: Any) -> ASGIApp:
        """Return another application in front of the same engines."""
        if keys is None and limits is None:
            return create_app(self.service, **settings)
        service = dataclasses.replace(self.service, keys=KeyRing(keys), limits=limits or self.limits)
        return create_app(service, **settings)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def request(self, method: str, path: str, app: ASGIApp | None = None, **request: Any) -> httpx.Response:
        return self.run(send_request(app or self.app, method, path, **request))

    def post(self, path: str, app: ASGIApp | None = None, **content: Any) -> httpx.Response:
        """Send a JSON body, which can contain half a character."""
        headers = {"content-type": "application/json"}
        return self.request("POST", path, app, content=json.dumps(content).encode(), headers=headers)

    def options(self, model: str | None = None, **options: Any) -> TranslationOptions:
        info = self.service.find_model(model)
        return TranslationOptions(info.name, info.sha256, **options)

    def translate(self, *texts: str, **options: Any) -> list[str]:
        return [result.text() for result in self.run(self.service.translate(texts, self.options(**options)))]

    @property
    def pids(self) -> list[int]:
        return [engine.process.pid for engine in self.pool.engines]

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    @property
    def log_text(self) -> str:
        return self._log.getvalue()

    def _on_event(self, event: str, *, level: str = "info", **fields: Any) -> None:
        self.events.append({"event": event, "level": level, **fields})


@contextlib.contextmanager
def open_harness(models: Mapping[str, Path], num_engines: int = 1, **limits: Any) -> Iterator[ServiceHarness]:
    """Yield a harness with its engines started; all of them are gone afterwards."""
    patient = {"wait": PATIENCE_S, "seconds": PATIENCE_S, "engine_seconds": PATIENCE_S}
    harness = ServiceHarness(models, num_engines, Limits.model_validate(patient | limits))
    with harness.runner:
        try:
            harness.run(harness.pool.start())
            yield harness
        finally:
            harness.run(harness.pool.close())


async def send_request(app: ASGIApp, method: str, path: str, **request: Any) -> httpx.Response:
    """Return the response of an application that listens nowhere."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
        return await client.request(method, path, **request)


async def until(condition: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Wait until the condition holds, and return its value."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.002)
    return value


TOY_SHA256 = "0" * 64
OPTIONS = TranslationOptions("toy", TOY_SHA256)


def model_info(sha256: str = TOY_SHA256, name: str = "toy", **fields: Any) -> ModelInfo:
    usual = {"source": "en", "target": "de", "beam_size": 4, "formula": "gnmt", "alpha": 0.6, "aligns": False}
    return ModelInfo.model_validate({"name": name, "sha256": sha256, "compute": "float32", **usual, **fields})


def queue_sentence(
    text: str,
    queued_at: float,
    loop: asyncio.AbstractEventLoop,
    options: TranslationOptions = OPTIONS,
    cost: int = 0,
) -> QueuedSentence:
    return QueuedSentence(text, options, cost or 2 + len(text) // 4, queued_at, loop.create_future())


class FakeEngine(EngineHandle):
    """An engine without a process: it keeps its batches until the test lets it answer or die."""

    def __init__(self, model: ModelInfo | None = None) -> None:
        process = Mock(spec=ForkedProcess)
        reader, writer = Mock(spec=asyncio.StreamReader), Mock(spec=asyncio.StreamWriter)
        super().__init__(process, reader, writer, {"toy": model or model_info()}, 0.01)

    @property
    def texts(self) -> list[list[str]]:
        return [[sentence.text for sentence in batch.sentences] for batch in self.batches.values()]


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps where others sleep: a test of waiting takes no time, and never varies."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._jumping = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is left that could happen: this would wait for ever"
        self._jumping.now += max(0.0, timeout)
        return super().select(0)


def run_with_fake_clock(work: Callable[[], Awaitable[None]]) -> None:
    """Run the work in a loop whose clock jumps."""

    async def run() -> None:
        await work()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(run())
