"""A service inside the test's own process, without a socket: the real routes and queue, and real engine processes.

And for what is a question of time alone: engines that answer when they are told to, and a loop whose clock jumps.
"""

import asyncio
import contextlib
import io
import json
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.types import ASGIApp

from dragoman.serving.app import application
from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.door import Door
from dragoman.serving.engine import Engine, Orders
from dragoman.serving.facts import Facts
from dragoman.serving.keys import Key, Keys
from dragoman.serving.limits import Limits
from dragoman.serving.logs import Log
from dragoman.serving.metrics import Metrics
from dragoman.serving.piece import Piece, Wish, cost_of
from dragoman.serving.service import Service

PATIENCE_S = 300.0
"""On a busy machine everything takes long, and nothing here is about speed."""

T = TypeVar("T")


class House:
    """A service and its engines, until it is closed."""

    def __init__(self, models: Mapping[str, Path], num_engines: int = 1, limits: Limits | None = None) -> None:
        self.runner = asyncio.Runner()
        self.limits = limits or Limits(wait=PATIENCE_S, seconds=PATIENCE_S, engine_seconds=PATIENCE_S)
        self.metrics = Metrics()
        self.told: list[dict[str, Any]] = []
        """What the engines' keeper had to say."""
        self.dispatcher = Dispatcher(Orders(models), num_engines, self.limits, self._say, self.metrics.seen)
        self.metrics.watch(self.dispatcher)
        self.crew = self.dispatcher.crew
        self.service = Service(self.dispatcher, self.limits)
        self._log = io.StringIO()
        self.writing = Log(self._log)
        self.app = self.another()

    def another(self, keys: list[Key] | None = None, limits: Limits | None = None, **given: Any) -> ASGIApp:
        """Another application before the same engines."""
        service = Service(self.dispatcher, limits) if limits else self.service
        return application(Door(service, Keys(keys), self.metrics), self.writing, **given)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def ask(self, method: str, path: str, app: ASGIApp | None = None, **given: Any) -> httpx.Response:
        return self.run(asked(app or self.app, method, path, **given))

    def post(self, path: str, app: ASGIApp | None = None, **content: Any) -> httpx.Response:
        """With a body of JSON, in which half a character is possible."""
        headers = {"content-type": "application/json"}
        return self.ask("POST", path, app, content=json.dumps(content).encode(), headers=headers)

    def wish(self, model: str | None = None, **how: Any) -> Wish:
        facts = self.service.model(model)
        return Wish(facts.name, facts.sha256, **how)

    def translate(self, *texts: str, **how: Any) -> list[str]:
        return [found.text for found in self.run(self.service.translate(texts, self.wish(**how)))]

    @property
    def pids(self) -> list[int]:
        return [engine.process.pid for engine in self.crew.engines]

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    @property
    def log_text(self) -> str:
        return self._log.getvalue()

    def _say(self, event: str, *, level: str = "info", **fields: Any) -> None:
        self.told.append({"event": event, "level": level, **fields})


@contextlib.contextmanager
def opened(models: Mapping[str, Path], num_engines: int = 1, **limits: Any) -> Iterator[House]:
    """A house with its engines started, and all of them gone afterwards."""
    patient = {"wait": PATIENCE_S, "seconds": PATIENCE_S, "engine_seconds": PATIENCE_S}
    house = House(models, num_engines, Limits.model_validate(patient | limits))
    with house.runner:
        try:
            house.run(house.crew.start())
            yield house
        finally:
            house.run(house.crew.close())


async def asked(app: ASGIApp, method: str, path: str, **given: Any) -> httpx.Response:
    """The answer of an application that listens nowhere."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
        return await client.request(method, path, **given)


async def until(holds: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Wait for it, looking again and again, while all else goes on."""
    async with asyncio.timeout(seconds):
        while not (found := holds()):
            await asyncio.sleep(0.002)
    return found


GENERATION = "0" * 64
WISH = Wish("toy", GENERATION)


def facts(sha256: str = GENERATION, name: str = "toy", **given: Any) -> Facts:
    usual = {"source": "en", "target": "de", "beam_size": 4, "formula": "gnmt", "alpha": 0.6, "aligns": False}
    return Facts.model_validate({"name": name, "sha256": sha256, "compute": "float32", **usual, **given})


def piece(text: str, asked: float, loop: asyncio.AbstractEventLoop, wish: Wish = WISH, cost: int = 0) -> Piece:
    return Piece(text, wish, cost or cost_of(text), asked, loop.create_future())


class Still(Engine):
    """An engine without a process: it keeps what it is given, until the test lets it answer or die."""

    def __init__(self, model: Facts | None = None) -> None:
        self.facts = {"toy": model or facts()}
        self.alone = 0.01
        self.batches = {}
        self.leaving = False
        self._last = 0.0
        self._count = 0

    def send(self, pieces: list[Piece], now: float) -> None:
        self._writer = _Nowhere()
        super().send(pieces, now)

    @property
    def texts(self) -> list[list[str]]:
        return [[piece.text for piece in batch.pieces] for batch in self.batches.values()]


class _Nowhere:
    def write(self, _: bytes) -> None:
        pass


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where others sleep, its clock jumps: a test of waiting takes no time, and always the same course."""

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


def jumping(work: Callable[[], Awaitable[None]]) -> None:
    """Do it in a loop whose clock jumps."""

    async def whole() -> None:
        await work()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(whole())
