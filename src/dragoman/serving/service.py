"""The translation service behind the routes: splits texts into sentences, queues them and joins the answers."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
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
from dragoman.serving.keys import KeyRing, KeyUsage
from dragoman.serving.languages import detect_languages
from dragoman.serving.prometheus import Metrics
from dragoman.text.cleaning import clean_line
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import Glossary
from dragoman.translation.kept import split_kept

T = TypeVar("T")

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
    is_draining: bool = False
    """True after SIGTERM: the service still accepts requests, but reports that it is not ready."""

    @staticmethod
    def create(config: ServiceConfig, log: LogEvent) -> "Service":
        """Return a service whose engines are not started yet."""
        metrics = Metrics()
        dispatcher = Dispatcher(config, log, metrics.count_batch)
        metrics.watch(dispatcher)
        glossaries = read_glossaries(config.glossaries)
        return Service(dispatcher, config.limits, KeyRing(config.keys), metrics, log, glossaries)

    @property
    def models(self) -> dict[str, ModelInfo]:
        """The served models, by name."""
        return self.dispatcher.pool.models

    @property
    def is_ready(self) -> bool:
        """True if an engine is ready and the service is not stopping."""
        return self.dispatcher.pool.is_ready and not self.is_draining

    def find_model(self, name: str | None, source: str | None = None, target: str | None = None) -> ModelInfo:
        """Return the model called `name`, or the first model that translates from `source` to `target`."""
        if name is not None:
            if name not in self.models:
                raise UnknownModelError(f"unknown model {_quote(name)}: give {_list(list(self.models))}")
            return self.models[name]
        for model in self.models.values():
            if any(source in (None, one) and target in (None, other) for one, other in model.pairs):
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
        """Return the most probable source language among the models that translate into `target`."""
        pairs = [pair for model in self.models.values() for pair in model.pairs]
        sources = {source: None for source, other in pairs if target in (None, other)}
        ranked = [code for code, _ in detect_languages("\n".join(texts)[:DETECT_CHARACTERS])]
        return next((code for code in ranked if code in sources), next(iter(sources), ranked[0]))

    def check_texts(self, texts: Sequence[str], prefix: str = "") -> None:
        """Raise TooLargeError if the texts exceed the limits, InvalidRequestError for lone surrogates."""
        characters, limits = sum(map(len, texts)) + len(prefix), self.limits
        for what, size, limit in (("texts", len(texts), limits.texts), ("characters", characters, limits.characters)):
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
        self.check_texts(texts, options.prefix)
        model = self.models[options.model]
        source = source if source in model.sources else model.source
        language = None if source == "und" else source
        documents = [TextDocument.of(text, language) if split else TextDocument.of_lines(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        if options.prefix and (len(documents) != 1 or len(sentences) != 1):
            raise InvalidRequestError("prefix needs a single sentence: send one text of one sentence, or omit prefix")
        found = await self._translate_sentences(sentences, options, glossary, request_id) if sentences else []
        if glossary:
            found = [{"terms": [], **answer} for answer in found]
        answers = iter(found)
        return [DocumentTranslation(document, [next(answers) for _ in document.spans]) for document in documents]

    async def _translate_sentences(
        self, texts: list[str], options: TranslationOptions, glossary: Glossary | None, request_id: str
    ) -> list[Answer]:
        """Translate sentences; a sentence that is kept whole is answered without an engine."""
        self.dispatcher.require_ready()
        parts = split_kept([clean_line(text) for text in texts], self.dispatcher.pool.vocabularies[options.model])
        costs = [sum(part.num_tokens for part in of_text) for of_text in parts]
        if max(costs) > self.limits.sentence_tokens:
            most, limit = max(costs), self.limits.sentence_tokens
            raise TooLargeError(f"a sentence has {most:,} tokens, the limit is {limit:,}: send shorter sentences")
        read = [i for i, cost in enumerate(costs) if cost or options.prefix]
        # Engines get only the terms that a sentence has, so all sentences without terms can share a batch.
        with_terms = [_add_terms(options, texts[i], glossary) for i in read]
        found = await self._translate_queued([texts[i] for i in read], [costs[i] for i in read], with_terms, request_id)
        answers = dict(zip(read, found, strict=True))
        return [answers.get(i) or _keep(text, parts[i][0].kept, options) for i, text in enumerate(texts)]

    async def _translate_queued(
        self, texts: list[str], costs: list[int], options: list[TranslationOptions], request_id: str
    ) -> list[Answer]:
        if not texts:
            return []
        loop = asyncio.get_running_loop()
        now, new = loop.time(), loop.create_future
        sentences = [
            QueuedSentence(text, each, cost * (1 + TERM_COST * len(each.terms)), now, new(), request_id)
            for text, cost, each in zip(texts, costs, options, strict=True)
        ]
        self.dispatcher.admit(sum(sentence.cost for sentence in sentences))
        self.dispatcher.put(sentences)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.gather(*(sentence.answer for sentence in sentences))
        except TimeoutError:
            raise OverloadedError(f"timeout after {self.limits.seconds:g} seconds: send less text", 1.0) from None
        finally:
            self.dispatcher.abandon(sentences)


def read_glossaries(paths: Mapping[str, Path]) -> dict[str, Glossary]:
    """Read the glossaries of a service; raise ValueError with the file and line of an invalid term."""
    return {name: Glossary.read(path) for name, path in paths.items()}


def _add_terms(options: TranslationOptions, text: str, glossary: Glossary | None) -> TranslationOptions:
    """Return the options of a sentence, with the terms of the glossary that the sentence contains."""
    matches = glossary.find(text) if glossary else []
    return options._replace(terms=tuple(dict.fromkeys((match.source, match.target) for match in matches)))


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
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return (bearer.strip() if scheme.lower() == "bearer" else None) or headers.get("x-api-key")


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

    @contextlib.contextmanager
    def charge(self, characters: int) -> Iterator[None]:
        """Count the request against the quotas of its key, unless it gets no answer.

        A client that leaves before its answer has used a request, but no characters.
        """
        if self.usage is None:
            yield
            return
        self.usage.count(characters)
        try:
            yield
        except BaseException as error:
            self.usage.take_back(characters, 1 if isinstance(error, Exception) else 0)
            raise

    async def translate(
        self,
        texts: Sequence[str],
        options: TranslationOptions,
        split: bool = True,
        glossary: Glossary | None = None,
        source: str | None = None,
    ) -> list[DocumentTranslation]:
        """Translate the texts, charge the key and log the request; cancel if the client disconnects."""
        characters = sum(map(len, texts))
        add_log_fields(self.request, texts=len(texts), characters=characters, model=options.model)
        request_id = self.request.scope.get("request_id", "")
        with self.charge(characters):
            work = self.service.translate(texts, options, split, glossary, source, request_id)
            return await cancel_on_disconnect(self.request, work)


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
