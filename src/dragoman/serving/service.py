"""The translation service behind the routes: splits texts into sentences, queues them and joins the answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request

from dragoman.api_schemas import ModelInfo
from dragoman.serving.config import Limits, LogEvent, ServiceConfig
from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.engine_pool import QueuedSentence
from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, OverloadedError, TooLargeError, UnknownModelError
from dragoman.serving.file_store import FileStore
from dragoman.serving.glossary_store import GlossaryStore
from dragoman.serving.keys import KeyRing, KeyUsage
from dragoman.serving.languages import detect_languages
from dragoman.serving.prometheus import Metrics
from dragoman.serving.request_spans import Tracing
from dragoman.serving.shared_quotas import SharedQuotas
from dragoman.text.cleaning import clean_line
from dragoman.text.language_names import language_name
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import Glossary
from dragoman.translation.kept import split_kept

T = TypeVar("T")

CERTAIN = 0.9
"""Probability above which a detected language is believed, although no model translates from it. That of a few words is
far lower."""
DETECT_CHARACTERS = 2000
"""Number of leading characters that language detection uses."""

TERM_COST = 3
"""Cost of a glossary term in a sentence, divided by the cost of the sentence: each term may need further searches."""


class DocumentTranslation(NamedTuple):
    """A text and the engine's answer to each of its sentences."""

    document: TextDocument
    answers: list[Answer]

    def text(self, rank: int = 0) -> str:
        """Return the translated text. Each sentence has its hypothesis of rank `rank`, or its last if it has fewer."""
        ranked = [answer["hypotheses"] for answer in self.answers]
        return self.document.join([some[min(rank, len(some) - 1)]["text"] for some in ranked])


@dataclass
class Service:
    """The state that the routes share: dispatcher, limits, keys, metrics and log."""

    dispatcher: Dispatcher
    limits: Limits
    keys: KeyRing
    metrics: Metrics
    log: LogEvent
    glossaries: Mapping[str, Glossary] = field(default_factory=dict)
    """The glossaries that requests may name."""
    quotas: SharedQuotas | None = None
    """Quotas that other services share; None: each key's usage is counted by this service alone."""
    tracing: Tracing | None = None
    """OpenTelemetry spans of requests, if the environment asks for them."""
    stored_glossaries: GlossaryStore = field(default_factory=GlossaryStore)
    """The glossaries that clients have stored by DeepL's routes."""
    stored_files: FileStore = field(default_factory=FileStore)
    is_draining: bool = False
    """True after SIGTERM: the service still accepts requests, but reports that it is not ready."""

    @staticmethod
    def create(config: ServiceConfig, log: LogEvent) -> "Service":
        """Return a service whose engines are not started yet."""
        metrics = Metrics()
        dispatcher = Dispatcher(config, log, metrics.count_batch)
        metrics.watch(dispatcher)
        glossaries = read_glossaries(config.glossaries)
        quotas = SharedQuotas(config.quotas, log) if config.quotas else None
        tracing = Tracing.from_environment(log)
        return Service(dispatcher, config.limits, KeyRing(config.keys), metrics, log, glossaries, quotas, tracing)

    @property
    def models(self) -> dict[str, ModelInfo]:
        """The served models, by name."""
        return self.dispatcher.pool.models

    @property
    def is_ready(self) -> bool:
        """True if an engine is ready and the service is not stopping."""
        return self.dispatcher.pool.is_ready and not self.is_draining

    def find_model(self, name: str | None, source: str | None = None, target: str | None = None) -> ModelInfo:
        """Return the model called `name`, or the first model that translates from `source` to `target`.

        If both are the same language, which no model translates, return the first model that writes it.
        """
        if name is not None:
            if name not in self.models:
                raise UnknownModelError(f"unknown model {_quote(name)}: give {_list(list(self.models))}")
            return self.models[name]
        for origin in (source, None) if source == target else (source,):
            for model in self.models.values():
                if any(origin in (None, one) and target in (None, other) for one, other in model.pairs):
                    return model
        pairs = [f"{one} to {other}" for model in self.models.values() for one, other in model.pairs]
        raise UnknownModelError(f"no model from {_quote(source)} to {_quote(target)}: give {_list(pairs)}")

    def choose_language(self, model: ModelInfo, target: str | None) -> str | None:
        """Return the target language of a request to a model that translates into several; None for other models."""
        if not model.targets:
            return None
        if target is None:
            several = f"the model {model.name} translates into several languages"
            raise InvalidRequestError(f"{several}: give a target: {_list(list(model.targets))}")
        if target not in model.targets:
            raise UnknownModelError(
                f"the model {model.name} does not translate into {_quote(target)}: give {_list(list(model.targets))}"
            )
        return target

    def find_glossary(self, glossary: str | dict[str, str] | None) -> Glossary | None:
        """Return the service's glossary with a name, or that of a request; raise RejectedError if it is invalid."""
        if glossary is None:
            return None
        if isinstance(glossary, str):
            if glossary not in self.glossaries:
                known = _list(list(self.glossaries)) if self.glossaries else "a mapping of source terms to target terms"
                raise InvalidRequestError(f"unknown glossary {_quote(glossary)}: give {known}")
            return self.glossaries[glossary]
        if len(glossary) > self.limits.glossary_terms:
            most = self.limits.glossary_terms
            raise TooLargeError(f"{len(glossary):,} glossary terms are too many: send at most {most:,} per request")
        try:
            return Glossary.of(glossary)
        except ValueError as error:
            raise InvalidRequestError(f"glossary, {error}") from None

    def detect_source(self, texts: Sequence[str], target: str | None) -> str:
        """Return the most probable source language among the models that translate into `target`.

        A language without a model is returned only if it is `target`; if another one is certain, raise
        UnknownModelError.
        """
        pairs = [pair for model in self.models.values() for pair in model.pairs]
        sources = {source: None for source, other in pairs if target in (None, other)}
        ranked = detect_languages("\n".join(texts)[:DETECT_CHARACTERS])
        (first, probability), *_ = ranked
        if sources and first not in sources and probability > CERTAIN:
            if first == target:
                return first
            title = f"{language_name(first)} ({probability:.0%})"
            fix = f"give the source: {_list(list(sources))}"
            raise UnknownModelError(f"the text is {title}, from which no model translates: {fix}")
        return next((code for code, _ in ranked if code in sources), next(iter(sources), first))

    def check_texts(self, texts: Sequence[str], prefix: str = "", most_characters: int | None = None) -> None:
        """Raise TooLargeError if the texts exceed the limits, InvalidRequestError for lone surrogates."""
        characters, limits = sum(map(len, texts)) + len(prefix), self.limits
        most = most_characters or limits.characters
        for what, size, limit in (("texts", len(texts), limits.texts), ("characters", characters, most)):
            if size > limit:
                raise TooLargeError(f"{size:,} {what} are too many: send at most {limit:,} per request")
        for number, text in enumerate([prefix, *texts]):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                which = f"text {number}" if number else "prefix"
                raise InvalidRequestError(f"{which}: lone surrogate at index {error.start}: remove it") from None

    async def translate(
        self,
        texts: Sequence[str],
        options: TranslationOptions,
        split: bool = True,
        glossary: Glossary | None = None,
        source: str | None = None,
        request_id: str = "",
    ) -> list[DocumentTranslation]:
        """Return one translation per text. If the call is cancelled, its sentences are translated no further.

        `source` is the language of the texts, if the request names it. Log lines about an engine name `request_id`.
        """
        plan = self.plan(texts, options, split, glossary, source)
        answers = iter(await self._translate_sentences(plan.sentences, request_id))
        return [DocumentTranslation(document, [next(answers) for _ in document.spans]) for document in plan.documents]

    def plan(
        self,
        texts: Sequence[str],
        options: TranslationOptions,
        split: bool = True,
        glossary: Glossary | None = None,
        source: str | None = None,
        most_characters: int | None = None,
    ) -> "TranslationPlan":
        """Split texts into sentences, and choose their options; raise RejectedError for texts that are too much.

        `most_characters` replaces the limit of characters per request.
        """
        self.check_texts(texts, options.prefix, most_characters)
        model = self.models[options.model]
        if source == (options.to or model.target) and (source, source) not in model.pairs:  # nothing to translate
            return TranslationPlan([TextDocument(text, ()) for text in texts], [])
        source = source if source in model.sources else model.source
        language = None if source == "und" else source
        documents = [TextDocument.of(text, language) if split else TextDocument.of_lines(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        if options.prefix and (len(documents) != 1 or len(sentences) != 1):
            raise InvalidRequestError("prefix needs a single sentence: send one text of one sentence, or omit prefix")
        return TranslationPlan(documents, self._plan_sentences(sentences, options, glossary) if sentences else [])

    def _plan_sentences(
        self, texts: list[str], options: TranslationOptions, glossary: Glossary | None
    ) -> list["PlannedSentence"]:
        self.dispatcher.require_ready()
        parts = split_kept([clean_line(text) for text in texts], self.dispatcher.pool.vocabularies[options.model])
        costs = [sum(part.num_tokens for part in of_text) for of_text in parts]
        if max(costs) > self.limits.sentence_tokens:
            most, limit = max(costs), self.limits.sentence_tokens
            raise TooLargeError(f"a sentence has {most:,} tokens, the limit is {limit:,}: send shorter sentences")
        # Engines get only the terms that a sentence has, so all sentences without terms can share a batch.
        terms = [_find_terms(text, glossary) for text in texts]
        return [
            PlannedSentence(
                text, options._replace(terms=own), cost * (1 + TERM_COST * len(own)), some[0].kept, glossary is not None
            )
            for text, own, cost, some in zip(texts, terms, costs, parts, strict=True)
        ]

    async def _translate_sentences(self, planned: Sequence["PlannedSentence"], request_id: str) -> list[Answer]:
        """Translate sentences; a sentence that is kept whole is answered without an engine."""
        queued = {i: one.queue(request_id) for i, one in enumerate(planned) if one.needs_engine}
        if queued:
            self.dispatcher.admit(sum(sentence.cost for sentence in queued.values()))
            self.dispatcher.put(list(queued.values()))
        try:
            async with asyncio.timeout(self.limits.seconds):
                found = await asyncio.gather(*(sentence.answer for sentence in queued.values()))
        except TimeoutError:
            raise OverloadedError(f"timeout after {self.limits.seconds:g} seconds: send less text", 1.0) from None
        finally:
            self.dispatcher.abandon(list(queued.values()))
        answers = dict(zip(queued, found, strict=True))
        return [one.complete(answers.get(i)) for i, one in enumerate(planned)]


class PlannedSentence(NamedTuple):
    """A sentence of a request that is not queued yet."""

    text: str
    options: TranslationOptions
    cost: int
    """The cost for an engine: its tokens, more with terms."""
    kept: str | None
    """The reason why source text is kept, if the sentence is kept whole."""
    has_glossary: bool

    @property
    def needs_engine(self) -> bool:
        """False for a sentence that is kept whole."""
        return bool(self.cost or self.options.prefix)

    def queue(self, request_id: str) -> QueuedSentence:
        """Return the sentence as it enters the queue, with the future of its answer."""
        loop = asyncio.get_running_loop()
        return QueuedSentence(self.text, self.options, self.cost, loop.time(), loop.create_future(), request_id)

    def complete(self, answer: Answer | None) -> Answer:
        """Return the answer of an engine, or that to a sentence kept whole; with terms if there is a glossary."""
        answer = answer or _keep(self.text, self.kept, self.options)
        return {"terms": [], **answer} if self.has_glossary else answer


class TranslationPlan(NamedTuple):
    """The texts of a request, and their sentences."""

    documents: list[TextDocument]
    sentences: list[PlannedSentence]


def read_glossaries(paths: Mapping[str, Path]) -> dict[str, Glossary]:
    """Read the glossaries of a service; raise ValueError with the file and line of an invalid term."""
    return {name: Glossary.read(path) for name, path in paths.items()}


def _find_terms(text: str, glossary: Glossary | None) -> tuple[tuple[str, str], ...]:
    """Return the terms of the glossary that a sentence contains."""
    matches = glossary.find(text) if glossary else []
    return tuple(dict.fromkeys((match.source, match.target) for match in matches))


def _keep(text: str, reason: str | None, options: TranslationOptions) -> Answer:
    """Return the answer of an engine to a sentence that is kept whole."""
    requested: Answer = {name: [] for name in ("tokens", "alignment") if getattr(options, name)}
    hypothesis = {"text": " ".join(text.splitlines()), "score": 0.0, "log_probability": 0.0}
    return {"hypotheses": [hypothesis], "num_tokens": 0, "kept": reason, **requested}


def _list(names: list[str]) -> str:
    return ", ".join(names[:20]) + (" or another" if len(names) > 20 else "")


def _quote(value: str | None) -> str:
    """Quote and shorten a client's string for an error message."""
    return "anything" if value is None else repr(value[:40])


def key_in_headers(headers: Headers) -> str | None:
    """Return the API key of the headers Authorization or X-API-Key."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return (key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else None) or headers.get("x-api-key")


class RequestContext(NamedTuple):
    """An authenticated request; `usage` is None if the service requires no key."""

    service: Service
    request: Request
    usage: KeyUsage | None

    @staticmethod
    def authenticate(service: Service, request: Request, key: str | None = None) -> "RequestContext":
        """Check the API key in the headers, or `key` from the body; raise UnknownKeyError for an unknown key."""
        if "usage" not in request.scope:
            key = key_in_headers(request.headers) or key
            request.scope["usage"] = service.keys.find(key, request.client.host if request.client else "")
        usage: KeyUsage | None = request.scope["usage"]
        if usage is not None:
            add_log_fields(request, key=usage.key.name)
        return RequestContext(service, request, usage)

    @contextlib.asynccontextmanager
    async def charge(self, characters: int) -> AsyncIterator[None]:
        """Count the request against the quotas of its key, unless it gets no answer.

        A client that leaves before its answer has used a request, but no characters.
        """
        is_shared = await self.count_request(characters)
        try:
            yield
        except BaseException as error:
            await self.take_back(characters, 1 if isinstance(error, Exception) else 0, is_shared)
            raise

    async def count_request(self, characters: int) -> bool:
        """Count the request; raise QuotaError if it exceeds a quota. Return True if other services see the count."""
        if self.usage is None:
            return False
        if self.service.quotas:
            return await self.service.quotas.count(self.usage, characters)
        self.usage.count(characters)
        return False

    async def take_back(self, characters: int, requests: int, is_shared: bool) -> None:
        """Take back characters and requests that were counted without an answer."""
        if self.usage is None:
            return
        if self.service.quotas and is_shared:
            await self.service.quotas.take_back(self.usage, characters, requests)
        else:
            self.usage.take_back(characters, requests)

    async def count_characters_today(self) -> int:
        """Return the characters that the key has used on the current day; 0 if the service requires no key."""
        if self.usage is None:
            return 0
        quotas = self.service.quotas
        return await quotas.characters_today(self.usage) if quotas else self.usage.characters_today

    async def translate(
        self,
        texts: Sequence[str],
        options: TranslationOptions,
        split: bool = True,
        glossary: Glossary | None = None,
        source: str | None = None,
    ) -> list[DocumentTranslation]:
        """Translate the texts, charge the key and log the request; cancel if the client disconnects."""
        characters = log_texts(self, texts, options.model)
        request_id = self.request.scope.get("request_id", "")
        async with self.charge(characters):
            work = self.service.translate(texts, options, split, glossary, source, request_id)
            return await cancel_on_disconnect(self.request, work)


def log_texts(context: RequestContext, texts: Sequence[str], model: str) -> int:
    """Add the number of texts and characters to the log line of a request; return that of characters."""
    characters = sum(map(len, texts))
    add_log_fields(context.request, texts=len(texts), characters=characters, model=model)
    return characters


def add_log_fields(request: Request, **fields: Any) -> None:
    """Add fields to the log line of a request."""
    request.scope.setdefault("log_fields", {}).update(fields)


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; cancel it if the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(wait_for_disconnect())
    watcher.add_done_callback(lambda _: task.cancel())
    try:
        return await task
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
