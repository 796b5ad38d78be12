"""The engine pool of the HTTP process: starts engine processes, and replaces them when they die or on reload.

CTranslate2 cannot stop a search. So an engine that translates only what nobody awaits any more is exchanged for a new
one, which takes the fork server a fraction of a second, and then killed.
"""

import asyncio
import contextlib
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dragoman.api_schemas import ModelInfo
from dragoman.serving.config import LogEvent, ServiceConfig
from dragoman.serving.engine_protocol import (
    MAX_BATCHES,
    MAX_LINE_BYTES,
    Answer,
    TranslationOptions,
    encode_message,
    read_message,
)
from dragoman.serving.fork_server import ForkedProcess, ForkServer, read_ready, wait_or_kill
from dragoman.serving.request_spans import REQUEST_SPAN, RequestSpan
from dragoman.text.subwords import Subwords

CHECK_SECONDS: Final = 0.1
"""Seconds between two checks for engines that do not answer, or whose work nobody awaits."""
ABANDONED_SECONDS: Final = 0.2
"""Seconds after which an engine whose work nobody awaits is exchanged: most batches have ended by then."""
CODE_SECONDS: Final = 5.0
"""Seconds for the fork server to report the exit code of an engine that has ended."""
MAX_PAUSE_SECONDS: Final = 10.0
"""Longest pause between attempts to start an engine: each attempt takes CPU time from the running engines."""


@dataclass(eq=False, slots=True)
class QueuedSentence:
    """A sentence that waits in the queue or is being translated by an engine."""

    text: str
    options: TranslationOptions
    cost: int
    """Source tokens to translate."""
    queued_at: float
    """Time in seconds, on the event loop's clock."""
    answer: "asyncio.Future[Answer]"
    request_id: str = ""
    """Id of the request in the log."""
    num_lost: int = field(default=0, init=False)
    """Number of engines that died while they translated the sentence."""
    span: RequestSpan | None = field(default_factory=REQUEST_SPAN.get, init=False)
    """The span of the request, if its trace is recorded."""


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """A batch of sentences that was sent to an engine."""

    sentences: list[QueuedSentence]
    sent_at: float
    cost: int


OnAnswers = Callable[[SentenceBatch, list[Answer], float], None]
"""A callback that gets a batch, the answers to its sentences and the seconds that the engine worked on it."""


@dataclass(eq=False)
class EngineHandle:
    """An engine process: its connection, its models and its pending batches."""

    process: ForkedProcess
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    models: dict[str, ModelInfo]
    seconds_alone: float
    """Seconds that the slowest model takes for a single sentence on an idle engine."""
    warnings: Sequence[str] = ()
    """Settings of the bundles that the engine cannot follow."""
    vocabularies: Mapping[str, Subwords] = field(default_factory=dict)
    """The source vocabulary of each model."""
    batches: dict[int, SentenceBatch] = field(default_factory=dict, init=False)
    num_sent: int = 0
    is_leaving: bool = False
    """True if the engine gets no more batches because it is being replaced."""
    answered_at: float = 0.0
    """Time of the last answer, on the event loop's clock."""
    abandoned_at: float | None = None
    """Time at which nobody was found to await the running batches; None if somebody does."""
    is_cancelled: bool = False
    """True if the engine is killed because nobody awaits its work."""

    @staticmethod
    async def start(server: ForkServer) -> "EngineHandle":
        """Fork an engine process; raise ValueError if it cannot run a model."""
        process, ours = await server.fork()
        writer = None
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
            message = await read_ready(reader, process)
        except BaseException:
            (writer or ours).close()
            await wait_or_kill(process)
            raise
        models = {model["name"]: ModelInfo.model_validate(model) for model in message["models"]}
        vocabularies = {name: Subwords(b64decode(content)) for name, content in message["vocabularies"].items()}
        seconds_alone, warnings = message["seconds_alone"], message["warnings"]
        return EngineHandle(process, reader, writer, models, seconds_alone, warnings, vocabularies)

    def suits(self, options: TranslationOptions) -> bool:
        """Return True if the engine accepts batches and has the model, with the same hash, that the options name."""
        return not self.is_leaving and self.models[options.model].sha256 == options.sha256

    @property
    def cost(self) -> int:
        """The source tokens of all pending batches."""
        return sum(batch.cost for batch in self.batches.values())

    @property
    def sentences(self) -> list[QueuedSentence]:
        """The sentences of all pending batches."""
        return [sentence for batch in self.batches.values() for sentence in batch.sentences]

    @property
    def is_on_trial(self) -> bool:
        """True if the engine is retrying a sentence, because another engine died while translating the sentence."""
        return any(batch.sentences[0].num_lost for batch in self.batches.values())

    def send(self, sentences: list[QueuedSentence], now: float) -> None:
        """Send sentences with equal options to the engine as one batch."""
        self.num_sent += 1
        texts = [sentence.text for sentence in sentences]
        self.writer.write(encode_message({"batch": self.num_sent, "options": sentences[0].options, "texts": texts}))
        self.batches[self.num_sent] = SentenceBatch(sentences, now, sum(sentence.cost for sentence in sentences))

    async def read_answers(self, on_answers: OnAnswers) -> list[QueuedSentence]:
        """Pass all answers to the callback until the process ends; return the sentences without an answer."""
        clock = asyncio.get_running_loop().time
        while message := await read_message(self.reader):
            batch, now = self.batches.pop(message["batch"]), clock()
            on_answers(batch, message["answers"], now - max(batch.sent_at, self.answered_at))
            self.answered_at = now
        self.writer.close()
        lost = self.sentences
        self.batches.clear()
        return lost

    def busy_since(self) -> float | None:
        """Return the time at which the engine began its oldest pending batch; None if the engine is idle."""
        return max(min(batch.sent_at for batch in self.batches.values()), self.answered_at) if self.batches else None

    def is_abandoned(self, num_running: int) -> bool:
        """Return True if nobody awaits the first `num_running` batches, which are those that the engine translates."""
        running = list(self.batches.values())[:num_running]
        return bool(running) and all(sentence.answer.done() for batch in running for sentence in batch.sentences)

    def kill(self) -> None:
        """Kill the engine process if it is still running."""
        self.process.kill()

    async def leave(self) -> None:
        """Wait until the engine has finished its batches, then close the socket, which ends the process."""
        self.is_leaving = True
        while self.batches:
            await asyncio.sleep(0.01)
        self.writer.close()
        await wait_or_kill(self.process)


def _request_ids(sentences: list[QueuedSentence]) -> list[str] | None:
    """Return the ids of the requests of sentences for the log; None if there are none."""
    return list(dict.fromkeys(sentence.request_id for sentence in sentences if sentence.request_id)) or None


class EngineCallbacks(NamedTuple):
    """The callbacks through which an engine pool reports answers, dead engines and log events."""

    on_answers: OnAnswers
    on_lost: Callable[[list[QueuedSentence], bool], None]
    """Called with the sentences of an engine that ended, and True if the engine was killed to free it."""
    is_needed: Callable[[EngineHandle], bool]
    """Returns True if a queued sentence needs a model of this engine."""
    on_change: Callable[[], None]
    """Called when engines were added to the pool."""
    log: LogEvent


class EnginePool:
    """A fixed number of engine processes; the pool replaces an engine that dies."""

    def __init__(self, config: ServiceConfig, callbacks: EngineCallbacks) -> None:
        self.config = config
        self.callbacks = callbacks
        self.engines: list[EngineHandle] = []
        """Engines that accept batches or still have pending batches."""
        self.models: dict[str, ModelInfo] = {}
        """The models for new requests, by name."""
        self.vocabularies: Mapping[str, Subwords] = {}
        """The source vocabulary of each model."""
        self.restarts = 0
        self.num_cancelled = 0
        """Engines that were exchanged because nobody awaited their work."""
        self.num_changed = 0
        """Models that a reload has replaced by others."""
        self._server: ForkServer | None = None
        """The fork server that has read the current models."""
        self._servers: list[ForkServer] = []
        """All fork servers that are not closed."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._started: list[EngineHandle] = []
        """Engines whose process may still run, also those that were not added to `engines` yet."""
        self._is_closing = False
        self._reload_lock = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        """True if at least one engine accepts batches."""
        return not self._is_closing and bool(self.working)

    @property
    def working(self) -> list[EngineHandle]:
        """The engines that accept batches."""
        return [engine for engine in self.engines if not engine.is_leaving]

    async def start(self) -> None:
        """Start all engines; raise ValueError if a model cannot be opened."""
        self._server = await self._start_server()
        self._join(await self._start_all(self._server))
        self.create_task(self._check_engines())

    async def reload(self) -> None:
        """Open the models in new engines, then stop the old engines; on ValueError the old engines are kept."""
        async with self._reload_lock:
            server = await self._start_server()
            try:
                new = await self._start_all(server)
            except (ValueError, OSError):
                await self._close_server(server)
                raise
            old, before = self.working, self.models
            self._join(new)
            self._server, old_server = server, self._server
            self._report_changes(before)
            await asyncio.gather(*(self._release(engine) for engine in old))
            await self._close_server(old_server)

    async def close(self) -> None:
        """Stop all engines after they have finished their batches."""
        self._is_closing = True
        await asyncio.gather(*(engine.leave() for engine in self.engines))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(engine.leave() for engine in self._started))
        await asyncio.gather(*map(self._close_server, list(self._servers)))

    async def _start_server(self) -> ForkServer:
        server = await ForkServer.start(self.config)
        self._servers.append(server)
        return server

    async def _close_server(self, server: ForkServer | None) -> None:
        if server in self._servers:
            self._servers.remove(server)
            await server.close()

    async def _start_all(self, server: ForkServer) -> list[EngineHandle]:
        """Start the first engine, then the other engines, so that a model that cannot be run is reported once."""
        new = [await self._start_one(server)]
        others = (self._start_one(server) for _ in range(self.config.num_engines - 1))
        results = await asyncio.gather(*others, return_exceptions=True)
        new += [result for result in results if isinstance(result, EngineHandle)]
        if len(new) == self.config.num_engines:
            for warning in new[0].warnings:
                self.callbacks.log("model warning", level="warning", reason=warning)
            return new
        await asyncio.gather(*(engine.leave() for engine in new))  # all of them, or none
        raise next(result for result in results if isinstance(result, BaseException))

    async def _start_one(self, server: ForkServer) -> EngineHandle:
        engine = await EngineHandle.start(server)
        self._started = [other for other in self._started if other.process.returncode is None] + [engine]
        return engine

    def _join(self, engines: list[EngineHandle]) -> None:
        self.engines += engines
        self.models, self.vocabularies = engines[0].models, engines[0].vocabularies
        for engine in engines:
            self.create_task(self._watch(engine))
        self.callbacks.on_change()

    def _report_changes(self, before: Mapping[str, ModelInfo]) -> None:
        for name, model in self.models.items():
            if model.sha256 != before[name].sha256:
                self.num_changed += 1
                self.callbacks.log("model changed", model=name, before=before[name].sha256, after=model.sha256)

    async def _release(self, engine: EngineHandle) -> None:
        """Stop an engine once no queued sentence needs its models."""
        while engine in self.engines and self.callbacks.is_needed(engine):
            await asyncio.sleep(0.01)
        await engine.leave()

    async def _watch(self, engine: EngineHandle) -> None:
        lost = await engine.read_answers(self.callbacks.on_answers)
        self.engines.remove(engine)
        code = None
        with contextlib.suppress(TimeoutError):
            code = await asyncio.wait_for(engine.process.wait(), CODE_SECONDS)
        if not engine.is_leaving and not self._is_closing:
            ids = _request_ids(lost)
            self.callbacks.log("engine lost", level="warning", code=code, pieces=len(lost), requests=ids)
            self.create_task(self._replace())
        self.callbacks.on_lost(lost, engine.is_cancelled)

    async def _replace(self) -> None:
        """Start another engine; after a failure, retry with exponential backoff."""
        pause = 0.0
        while not self._is_closing:
            await asyncio.sleep(pause)
            try:
                await self._add_engine()
            except (ValueError, OSError) as error:
                self.callbacks.log("engine not started", level="error", reason=str(error))
                pause = min(MAX_PAUSE_SECONDS, 2 * pause or 0.5)
            else:
                self.restarts += 1
                self.callbacks.log("engine started", restarts=self.restarts)
                return

    async def _add_engine(self) -> None:
        """Start an engine with the current models.

        If the fork server was lost, raise ValueError if the folders cannot be read, or have other models by now.
        """
        old = self._server
        server = old if old and old.is_running else await self._start_server()
        try:
            engine = await self._start_one(server)
            if len(self.working) >= self.config.num_engines:  # a reload came in between
                await engine.leave()
            elif engine.models != self.models:
                await engine.leave()
                raise ValueError("the model folders have other models than those served: send SIGHUP to change to them")
            else:
                self._server = server
                self._join([engine])
        finally:
            if self._server is not server:
                await self._close_server(server)
            elif server is not old:
                await self._close_server(old)

    async def _check_engines(self) -> None:
        """Kill engines that do not answer, and exchange engines whose work nobody awaits."""
        clock, limit = asyncio.get_running_loop().time, self.config.limits.engine_seconds
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for engine in [one for one in self.engines if not one.process.is_killed]:
                since = engine.busy_since()
                if since is not None and clock() - since > limit:
                    ids = _request_ids(engine.sentences)
                    self.callbacks.log("engine does not answer", level="error", seconds=limit, requests=ids)
                    engine.kill()
                elif not self._is_abandoned(engine):
                    engine.abandoned_at = None
                elif engine.abandoned_at is None:
                    engine.abandoned_at = clock()
                elif clock() - engine.abandoned_at > ABANDONED_SECONDS and not engine.is_cancelled:
                    engine.is_cancelled = True
                    self.create_task(self._exchange(engine))

    def _is_abandoned(self, engine: EngineHandle) -> bool:
        # With one thread, the engine translates its batches one after the other.
        return engine.is_abandoned(1 if self.config.threads == 1 else MAX_BATCHES)

    async def _exchange(self, engine: EngineHandle) -> None:
        """Suspend an engine whose work nobody awaits, and kill it when another is ready: some engine always is."""
        engine.process.suspend()
        if not engine.is_leaving:
            try:
                assert self._server is not None
                new = await self._start_one(self._server)
            except (ValueError, OSError) as error:
                self.callbacks.log("engine not started", level="error", reason=str(error))
            else:
                if engine in self.working and new.models == self.models:
                    engine.is_leaving = True
                    self._join([new])
                else:  # it has ended, or a reload came in between
                    await new.leave()
        self.num_cancelled += 1
        self.callbacks.log("work cancelled", requests=_request_ids(engine.sentences))
        engine.kill()

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a background task, which is cancelled when the pool is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
