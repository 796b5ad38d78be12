"""Streaming of translations: server-sent events, one per sentence, in order.

A stream has only some sentences in the queue at a time, so a long text does not keep others waiting, and the engines
have little left to do for a client that leaves.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from dragoman.serving.engine_pool import QueuedSentence
from dragoman.serving.engine_protocol import Answer
from dragoman.serving.errors import OverloadedError, RejectedError
from dragoman.serving.service import (
    DocumentTranslation,
    PlannedSentence,
    RequestContext,
    Service,
    TranslationPlan,
    cancel_on_disconnect,
    log_texts,
)

EVENT_STREAM: Final = "text/event-stream"
WINDOW_BATCHES: Final = 2
"""Batches per engine that a stream may have in the queue."""

WriteSentence = Callable[[str, Answer], dict[str, Any]]
"""Function from a sentence and its answer to the fields of its event."""
WriteResponse = Callable[[list[DocumentTranslation]], dict[str, Any]]
"""Function from all translations to the fields of the last event."""


class EventStream(StreamingResponse):
    """A response of server-sent events; `on_close` is called when it ends, or when the client leaves."""

    def __init__(self, events: AsyncIterator[bytes], on_close: Callable[[], Awaitable[None]]) -> None:
        super().__init__(events, media_type=EVENT_STREAM)
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._on_close()


class SentenceStream:
    """The sentences of a request, of which some are in the queue at a time."""

    def __init__(self, service: Service, sentences: list[PlannedSentence], request_id: str) -> None:
        self._service, self._request_id = service, request_id
        self._waiting = deque(sentences)
        self._pending: deque[tuple[PlannedSentence, QueuedSentence | None]] = deque()
        self._queue_more(is_first=True)

    def _queue_more(self, is_first: bool = False) -> None:
        """Queue sentences up to the size of the window; raise OverloadedError if the first ones cannot be admitted."""
        dispatcher, limits = self._service.dispatcher, self._service.limits
        window = WINDOW_BATCHES * limits.batch_tokens * max(1, len(dispatcher.pool.working))
        cost = sum(planned.cost for planned, _ in self._pending)
        if cost > window / 2:
            return
        new = []
        while self._waiting and (cost < window or not self._pending):
            planned = self._waiting.popleft()
            queued = planned.queue(self._request_id) if planned.needs_engine else None
            self._pending.append((planned, queued))
            new += [queued] if queued else []
            cost += planned.cost
        if not new:
            return
        if self._service.models[new[0].options.model].sha256 != new[0].options.sha256:
            raise OverloadedError("the model was replaced: try again", 1.0)
        if is_first:
            dispatcher.admit(sum(sentence.cost for sentence in new))
        dispatcher.put(new)

    async def next_answer(self) -> Answer:
        """Return the answer to the next sentence; raise OverloadedError if it takes too long."""
        planned, queued = self._pending[0]
        limit = self._service.limits.seconds
        try:
            async with asyncio.timeout(limit):
                answer = planned.complete(await queued.answer if queued else None)
        except TimeoutError:
            raise OverloadedError(f"timeout after {limit:g} seconds: try again later", 1.0) from None
        self._pending.popleft()
        self._queue_more()
        return answer

    def close(self) -> None:
        """Give up the sentences that are not answered yet."""
        self._waiting.clear()
        self._service.dispatcher.abandon([queued for _, queued in self._pending if queued])


async def translate_long(context: RequestContext, plan: TranslationPlan, model: str) -> list[DocumentTranslation]:
    """Translate long texts as a stream does; cancel if the client disconnects."""
    characters = log_texts(context, [document.text for document in plan.documents], model)

    async def collect() -> list[Answer]:
        sentences = SentenceStream(context.service, plan.sentences, context.request.scope.get("request_id", ""))
        try:
            return [await sentences.next_answer() for _ in plan.sentences]
        finally:
            sentences.close()

    async with context.charge(characters):
        answers = iter(await cancel_on_disconnect(context.request, collect()))
    return [DocumentTranslation(document, [next(answers) for _ in document.spans]) for document in plan.documents]


class TranslationStream:
    """The events of a request: each sentence as soon as it is translated, and the whole answer at the end.

    The key is charged for the characters of the texts, less those of sentences that were not sent.
    """

    def __init__(
        self, context: RequestContext, plan: TranslationPlan, sentences: SentenceStream, is_shared: bool
    ) -> None:
        self._context, self._plan, self._sentences = context, plan, sentences
        self._left, self._is_shared = _count_characters(plan), is_shared
        self._is_complete = False

    @staticmethod
    async def start(context: RequestContext, plan: TranslationPlan) -> "TranslationStream":
        """Charge the key and queue the first sentences; raise RejectedError if the request is refused."""
        is_shared = await context.count_request(_count_characters(plan))
        try:
            request_id = context.request.scope.get("request_id", "")
            sentences = SentenceStream(context.service, plan.sentences, request_id)
        except RejectedError:
            await context.take_back(_count_characters(plan), 1, is_shared)
            raise
        return TranslationStream(context, plan, sentences, is_shared)

    async def events(self, write_sentence: WriteSentence, write_response: WriteResponse) -> AsyncIterator[bytes]:
        """Yield the events; an error ends the stream with an `error` event."""
        results: list[DocumentTranslation] = []
        try:
            for number, document in enumerate(self._plan.documents):
                result = DocumentTranslation(document, [])
                for sentence in document.sentences:
                    result.answers.append(await self._sentences.next_answer())
                    place = {"text_index": number, "sentence_index": len(result.answers) - 1}
                    fields = {**place, "delta": _last_delta(result), **write_sentence(sentence, result.answers[-1])}
                    yield write_event("sentence", fields)
                    self._left -= len(sentence)
                results.append(result)
            yield write_event("done", write_response(results))
            self._is_complete = True
        except RejectedError as error:
            self._context.request.scope["refused"] = error.reason
            yield write_event("error", {"title": error.title, "status": error.status_code, "detail": error.detail})

    async def close(self) -> None:
        """Give up what was not sent, and take back its charge."""
        self._sentences.close()
        if self._is_complete:
            return
        await self._context.take_back(self._left, 0, self._is_shared)
        scope = self._context.request.scope
        scope["has_left"] = not scope.get("refused")


def _count_characters(plan: TranslationPlan) -> int:
    return sum(len(document.text) for document in plan.documents)


def _last_delta(result: DocumentTranslation) -> str:
    """Return what the last answer adds to the translated text, with the layout before it, and after the last one."""
    texts: list[str] = [answer["hypotheses"][0]["text"] for answer in result.answers[-2:]]
    index, spans = len(result.answers) - 1, result.document.spans
    after = result.document.gap(len(spans)) if index + 1 == len(spans) else ""
    return result.document.gap(index, texts[0] if index else "") + texts[-1] + after


def write_event(name: str, fields: dict[str, Any]) -> bytes:
    """Return a server-sent event; JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()
