"""The dispatcher: admits requests, queues their sentences, and sends the sentences to the engines in batches.

It rejects a request at once if the estimated time exceeds the limit.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from dragoman.serving.config import LogEvent, ServiceConfig
from dragoman.serving.engine_pool import EngineCallbacks, EngineHandle, EnginePool, QueuedSentence, SentenceBatch
from dragoman.serving.engine_protocol import MAX_BATCHES, Answer, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, OverloadedError, TranslationFailedError
from dragoman.serving.request_spans import add_work_spans

MERGE_SHARE: Final = 0.05
"""Time that a batch may wait for more sentences, divided by its expected time. Clients whose answers arrive together
send their next requests at almost the same time, and a slow model is far slower with small batches."""
WAIT_FACTOR: Final = 5.0
"""Longest wait of a request divided by the time of a single sentence, if that exceeds the limit `wait`."""

FORGET: Final = 0.95
"""Weight of a batch in the rate estimate, relative to the next one."""
PRIOR_SLOPE: Final = 0.25
"""Prior of the seconds per token, divided by the mean, for as long as all batches have the same size. Large batches are
far cheaper per token than small ones; an estimate that ignored this would reject too many requests to learn it."""
PRIOR_WEIGHT: Final = 0.05
"""Weight of the prior, relative to the variance of the batch sizes."""
MOST_TIMES: Final = 4.0
"""Longest time of a batch that enters the rate estimate, relative to the estimate: one batch that takes long for a
reason of its own must not make the service reject requests. A lasting change is learned in steps."""
LEAST_SECONDS: Final = 0.02
"""Time of a batch that always enters the rate estimate."""


class SentenceQueue:
    """A FIFO queue of sentences that wait for an engine; only sentences with equal options share a batch."""

    def __init__(self) -> None:
        self.cost = 0
        """Source tokens of all waiting sentences."""
        self._retried: dict[QueuedSentence, None] = {}
        """Sentences of engines that died: each is sent before all others, in a separate batch."""
        self._fresh: dict[QueuedSentence, None] = {}

    def __iter__(self) -> Iterator[QueuedSentence]:
        return chain(self._retried, self._fresh)

    @property
    def length(self) -> int:
        """The number of waiting sentences."""
        return len(self._retried) + len(self._fresh)

    def put(self, sentences: Iterable[QueuedSentence]) -> None:
        """Append sentences to the queue."""
        for sentence in sentences:
            self._line_of(sentence)[sentence] = None
            self.cost += sentence.cost

    def put_back(self, sentences: list[QueuedSentence]) -> None:
        """Return sentences to the head of the queue."""
        self._fresh = dict.fromkeys(sentences) | self._fresh
        self.cost += sum(sentence.cost for sentence in sentences)

    def discard(self, sentences: Iterable[QueuedSentence]) -> None:
        """Remove sentences from the queue; sentences that are no longer queued are ignored."""
        for sentence in sentences:
            line = self._line_of(sentence)
            if sentence in line:
                del line[sentence]
                self.cost -= sentence.cost

    def oldest(self, suits: Callable[[TranslationOptions], bool]) -> QueuedSentence | None:
        """Return the first sentence whose options satisfy the predicate `suits`, or None."""
        return next((sentence for sentence in self if suits(sentence.options)), None)

    def take(self, first: QueuedSentence, budget: int) -> list[QueuedSentence]:
        """Remove and return `first` and later sentences with equal options, with at most `budget` tokens in total."""
        batch, cost = [first], first.cost
        if not first.num_lost and not first.options.prefix:  # a translation with a given prefix is searched alone
            for sentence in self._fresh:
                if sentence is not first and sentence.options == first.options:
                    cost += sentence.cost
                    if cost > budget:
                        break
                    batch.append(sentence)
        self.discard(batch)
        return batch

    def _line_of(self, sentence: QueuedSentence) -> dict[QueuedSentence, None]:
        return self._retried if sentence.num_lost else self._fresh


class RateEstimate:
    """Estimates the seconds for a batch from its tokens, by linear regression with exponentially decaying weights."""

    def __init__(self) -> None:
        self._sums: tuple[float, ...] = (0.0,) * 5
        """Weight, tokens, seconds, tokens squared, tokens times seconds."""

    def add(self, tokens: int, seconds: float) -> None:
        """Add the tokens and seconds of a batch to the estimate; far more seconds than estimated are cut."""
        if self._sums[0]:
            per_batch, per_token = self._fit()
            seconds = min(seconds, max(LEAST_SECONDS, MOST_TIMES * (per_batch + per_token * tokens)))
        new = (1.0, tokens, seconds, tokens * tokens, tokens * seconds)
        self._sums = tuple(FORGET * old + more for old, more in zip(self._sums, new, strict=True))

    def seconds(self, tokens: int, num_engines: int, batch_tokens: int) -> float:
        """Return the estimated seconds for `tokens` tokens, shared evenly by the engines in full batches."""
        if not self._sums[0] or not tokens:
            return 0.0
        tokens_each = tokens / max(1, num_engines)
        per_batch, per_token = self._fit()
        return max(1.0, tokens_each / batch_tokens) * per_batch + per_token * tokens_each

    def _fit(self) -> tuple[float, float]:
        """Return the fitted seconds per batch and seconds per token."""
        tokens, seconds, squares, products = (total / self._sums[0] for total in self._sums[1:])
        prior = PRIOR_WEIGHT * tokens**2
        slope = (products - tokens * seconds + prior * PRIOR_SLOPE * seconds / tokens) / (squares - tokens**2 + prior)
        slope = min(max(slope, 0.0), seconds / tokens)
        return seconds - slope * tokens, slope


class Dispatcher:
    """Sends queued sentences to the engine pool in batches, and estimates how long requests will wait."""

    def __init__(self, config: ServiceConfig, log: LogEvent, on_batch: Callable[[SentenceBatch, int], None]) -> None:
        """Create the dispatcher; `on_batch` is called with each answered batch and its number of target tokens."""
        callbacks = EngineCallbacks(self._on_answers, self._on_lost, self._is_needed, self._on_change, log)
        self.pool = EnginePool(config, callbacks)
        self.queue = SentenceQueue()
        self._limits = config.limits
        self._on_batch = on_batch
        self._timer: asyncio.TimerHandle | None = None
        self._rate = RateEstimate()

    def delay(self, more: int = 0) -> float:
        """Return the estimated seconds until all pending work and `more` additional tokens are done."""
        return self._rate.seconds(self._pending() + more, len(self.pool.working), self._limits.batch_tokens)

    def _pending(self) -> int:
        """Return the source tokens in the queue and in the engines."""
        return self.queue.cost + sum(engine.cost for engine in self.pool.working)

    def require_ready(self) -> None:
        """Raise OverloadedError if no engine is ready."""
        if not self.pool.is_ready:
            raise OverloadedError("no engine is ready yet: try again later", 1.0)

    def admit(self, cost: int) -> None:
        """Raise OverloadedError if a request of `cost` tokens could not be answered in time."""
        self.require_ready()
        self.check_capacity()
        if self.delay(cost) > self._limits.seconds:
            seconds = f"{self._limits.seconds:g} seconds"
            raise OverloadedError(f"the request would take longer than {seconds}: send less text per request", 1.0)

    def check_capacity(self) -> None:
        """Raise OverloadedError if a new request would wait longer than the limit `wait`."""
        alone = min((engine.seconds_alone for engine in self.pool.engines), default=0.0)
        delay, limit = self.delay(), max(self._limits.wait, WAIT_FACTOR * alone)
        if delay > limit and self.queue.length:
            raise OverloadedError(f"{self.queue.length} sentences are queued: try again later", delay - limit)

    def put(self, sentences: list[QueuedSentence]) -> None:
        """Queue sentences; the answer to a sentence is set as the result of its future."""
        self.queue.put(sentences)
        self._distribute()

    def abandon(self, sentences: list[QueuedSentence]) -> None:
        """Give up sentences that nobody awaits any more; the pool frees the engines that translate nothing else."""
        self.queue.discard(sentences)
        for sentence in sentences:
            sentence.answer.cancel()

    def _distribute(self) -> None:
        """Send batches until the queue is empty or no engine can take another batch."""
        while self._send_batch():
            pass

    def _send_batch(self) -> bool:
        """Send a batch to the least busy engine; return False if no batch can be sent now.

        A partial batch waits `_merge_seconds` for more sentences; a busy engine gets only full batches.
        """
        now = asyncio.get_running_loop().time()
        is_full = self.queue.cost >= self._limits.batch_tokens
        for engine in sorted(self.pool.engines, key=lambda engine: len(engine.batches)):
            first = self.queue.oldest(engine.suits) if len(engine.batches) < MAX_BATCHES else None
            if first is None or (engine.batches and (not is_full or first.num_lost or engine.is_on_trial)):
                continue
            early = first.queued_at + self._merge_seconds() - now
            if early > 0 and not is_full and not first.num_lost:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(early, self._on_timer)
                continue
            engine.send(self.queue.take(first, self._share()), now)
            return True
        return False

    def _share(self) -> int:
        """Return the token budget of the next batch, so that all engines get an equal share.

        Without this limit, one engine could take the whole queue while the others finish and become idle. The clients
        of that batch would be answered together, send their next requests together, and fill a single engine again.
        """
        each = math.ceil(self._pending() / max(1, len(self.pool.working)))
        return min(self._limits.batch_tokens, each)

    def _merge_seconds(self) -> float:
        """Return the seconds that the first sentence of a batch waits for more sentences."""
        least, most = self._limits.merge_ms / 1000, self._limits.batch_tokens
        expected = self._rate.seconds(min(self.queue.cost, most), 1, most)
        return max(least, MERGE_SHARE * expected) if least else 0.0

    def _on_timer(self) -> None:
        self._timer = None
        self._distribute()

    def _on_answers(self, batch: SentenceBatch, answers: list[Answer], seconds: float) -> None:
        self._rate.add(batch.cost, seconds)
        self._distribute()
        add_work_spans(batch.sentences, seconds, asyncio.get_running_loop().time())
        for sentence, answer in zip(batch.sentences, answers, strict=True):
            if sentence.answer.done():
                continue
            if "error" in answer:
                kind = InvalidRequestError if answer["is_user_error"] else TranslationFailedError
                sentence.answer.set_exception(kind(answer["error"]))
            else:
                sentence.answer.set_result(answer)
        self._on_batch(batch, sum(answer.get("num_tokens", 0) for answer in answers))

    def _on_lost(self, sentences: list[QueuedSentence], is_cancelled: bool) -> None:
        """Queue each sentence of a dead engine once more, alone in a batch, since a sentence may be the cause.

        The sentences of an engine that was killed to free it are queued as before.
        """
        if is_cancelled:
            self.queue.put_back([sentence for sentence in sentences if not sentence.answer.done()])
            sentences = []
        for sentence in sentences:
            sentence.num_lost += 1
            if sentence.answer.done():
                continue
            if sentence.num_lost > 1:
                sentence.answer.set_exception(TranslationFailedError("two engines died while translating a sentence"))
            else:
                self.queue.put([sentence])
        self._on_change()

    def _on_change(self) -> None:
        """Reject sentences whose model no engine has any more, and send batches to the current engines."""
        unserved = [sentence for sentence in self.queue if not self._is_served(sentence.options)]
        self.queue.discard(unserved)
        for sentence in unserved:
            if not sentence.answer.done():
                sentence.answer.set_exception(OverloadedError("the model was replaced: try again", 1.0))
        self._distribute()

    def _is_served(self, options: TranslationOptions) -> bool:
        """Return True if an engine has the model of the options, or will have it after a dead engine is replaced."""
        is_current = self.pool.models[options.model].sha256 == options.sha256
        return is_current or any(engine.suits(options) for engine in self.pool.engines)

    def _is_needed(self, engine: EngineHandle) -> bool:
        return self.queue.oldest(engine.suits) is not None
