"""The engine pool of the HTTP process: starts engine processes, and replaces them when they die or on reload."""

import asyncio
import os
import socket
import sys
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dragoman.api_schemas import ModelInfo
from dragoman.serving.config import LogEvent, ServiceConfig
from dragoman.serving.engine_protocol import MAX_LINE_BYTES, Answer, TranslationOptions, encode_message, read_message
from dragoman.text.subwords import Subwords

CHECK_SECONDS: Final = 0.5
"""Seconds between two checks for engines that do not answer."""
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
    num_lost: int = field(default=0, init=False)
    """Number of engines that died while they translated the sentence."""


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

    process: asyncio.subprocess.Process
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

    @staticmethod
    async def start(config: ServiceConfig) -> "EngineHandle":
        """Start an engine process that opens all models; raise ValueError if a model cannot be opened."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = ("-P", "-m", "dragoman.serving.engine_process", str(theirs.fileno()), config.engine_argument())
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL, env=environment
            )
        writer = None
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
            message = await read_message(reader)
            if message is None:
                raise ValueError(f"an engine process ended with code {await process.wait()} before it was ready")
            if "failed" in message:
                raise ValueError(message["failed"])
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
        lost = [sentence for batch in self.batches.values() for sentence in batch.sentences]
        self.batches.clear()
        return lost

    def busy_since(self) -> float | None:
        """Return the time at which the engine began its oldest pending batch; None if the engine is idle."""
        return max(min(batch.sent_at for batch in self.batches.values()), self.answered_at) if self.batches else None

    def kill(self) -> None:
        """Kill the engine process if it is still running."""
        if self.process.returncode is None:
            self.process.kill()

    async def leave(self) -> None:
        """Wait until the engine has finished its batches, then close the socket, which ends the process."""
        self.is_leaving = True
        while self.batches:
            await asyncio.sleep(0.01)
        self.writer.close()
        await wait_or_kill(self.process)


async def wait_or_kill(process: asyncio.subprocess.Process, seconds: float = 5.0) -> None:
    """Wait for a process to end; kill the process if it is still running after `seconds` seconds."""
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()


class EngineCallbacks(NamedTuple):
    """The callbacks through which an engine pool reports answers, dead engines and log events."""

    on_answers: OnAnswers
    on_lost: Callable[[list[QueuedSentence]], None]
    """Called with the sentences of an engine that died."""
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
        self._join(await self._start_all())
        self.create_task(self._kill_stuck())

    async def reload(self) -> None:
        """Open the models in new engines, then stop the old engines; on ValueError the old engines are kept."""
        async with self._reload_lock:
            new = await self._start_all()
            old = self.working
            self._join(new)
            await asyncio.gather(*(self._release(engine) for engine in old))

    async def close(self) -> None:
        """Stop all engines after they have finished their batches."""
        self._is_closing = True
        await asyncio.gather(*(engine.leave() for engine in self.engines))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(engine.leave() for engine in self._started))

    async def _start_all(self) -> list[EngineHandle]:
        """Start the first engine, then the other engines, so that a damaged model is reported once."""
        new = [await self._start_one()]
        others = (self._start_one() for _ in range(self.config.num_engines - 1))
        results = await asyncio.gather(*others, return_exceptions=True)
        new += [result for result in results if isinstance(result, EngineHandle)]
        if len(new) == self.config.num_engines and all(engine.models == new[0].models for engine in new):
            for warning in new[0].warnings:
                self.callbacks.log("model warning", level="warning", reason=warning)
            return new
        await asyncio.gather(*(engine.leave() for engine in new))  # all of them, or none
        errors = [result for result in results if isinstance(result, BaseException)]
        raise errors[0] if errors else ValueError("the model folders changed while engines were starting: reload again")

    async def _start_one(self) -> EngineHandle:
        engine = await EngineHandle.start(self.config)
        self._started = [other for other in self._started if other.process.returncode is None] + [engine]
        return engine

    def _join(self, engines: list[EngineHandle]) -> None:
        self.engines += engines
        self.models, self.vocabularies = engines[0].models, engines[0].vocabularies
        for engine in engines:
            self.create_task(self._watch(engine))
        self.callbacks.on_change()

    async def _release(self, engine: EngineHandle) -> None:
        """Stop an engine once no queued sentence needs its models."""
        while engine in self.engines and self.callbacks.is_needed(engine):
            await asyncio.sleep(0.01)
        await engine.leave()

    async def _watch(self, engine: EngineHandle) -> None:
        lost = await engine.read_answers(self.callbacks.on_answers)
        self.engines.remove(engine)
        code = await engine.process.wait()
        if not engine.is_leaving and not self._is_closing:
            self.callbacks.log("engine lost", level="warning", code=code, pieces=len(lost))
            self.create_task(self._replace())
        self.callbacks.on_lost(lost)

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
        engine = await self._start_one()
        has_enough = len(self.working) >= self.config.num_engines  # if a reload came in between
        if engine.models == self.models and not has_enough:
            self._join([engine])
            return
        await engine.leave()
        if engine.models != self.models:  # the folders have other models now: all engines must have the same
            await self.reload()

    async def _kill_stuck(self) -> None:
        clock, limit = asyncio.get_running_loop().time, self.config.limits.engine_seconds
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for engine in self.engines:
                since = engine.busy_since()
                if since is not None and clock() - since > limit:
                    self.callbacks.log("engine does not answer", level="error", seconds=limit)
                    engine.kill()

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a background task, which is cancelled when the pool is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
