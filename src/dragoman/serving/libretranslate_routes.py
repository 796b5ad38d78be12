"""The routes of LibreTranslate's API: /translate, /detect and /languages, for existing clients."""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError

from dragoman.api_schemas import Integer
from dragoman.config import describe_first
from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, LibreTranslateError, document_errors
from dragoman.serving.languages import detect_languages
from dragoman.serving.service import DETECT_CHARACTERS, DocumentTranslation, RequestContext, Service
from dragoman.text.language_names import language_name
from dragoman.translation.document import TextDocument
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument, parse_html

FORM: Final = "application/x-www-form-urlencoded"


class LibreDetectRequest(BaseModel):
    """A request to /detect, as a form or as JSON."""

    q: str = Field(description="text to detect the language of", examples=["Where is the station?"])
    api_key: str | None = Field(None, description="API key, if the service requires keys")


class LibreTranslateRequest(BaseModel):
    """A request to /translate, as a form or as JSON."""

    q: str | list[str] = Field(description="text or texts to translate", examples=["Where is the station?"])
    source: str = Field(description="source language code; auto detects it", examples=["en"])
    target: str = Field(description="target language code", examples=["de"])
    format: Literal["text", "html"] = Field("text", description="format of the texts; the tags of html stay")
    alternatives: Integer = Field(0, ge=0, description="number of additional translations")
    api_key: str | None = Field(None, description="API key, if the service requires keys")


class DetectedLanguage(BaseModel):
    """A detected language and its probability."""

    confidence: float = Field(description="probability of the language in percent, 0 to 100", examples=[97.0])
    language: str = Field(examples=["en"])


class LibreTranslateResponse(BaseModel):
    """The response of /translate: single values for one text, lists for a list of texts."""

    translatedText: str | list[str] = Field(examples=["Wo ist der Bahnhof?"])  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class SourceLanguage(BaseModel):
    """A source language and its target languages."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["de"]])


RequestT = TypeVar("RequestT", LibreDetectRequest, LibreTranslateRequest)


class HtmlTranslation(NamedTuple):
    """A page and the engine's answer to each of its sentences."""

    document: TextDocument
    """The texts of the page, one per line."""
    answers: list[Answer]
    page: MarkupDocument

    def text(self, rank: int = 0) -> str:
        """Return the translated page; the alternatives of rank 1 and above have no word links."""
        sentences = []
        for span, answer in zip(self.document.spans, self.answers, strict=True):
            hypotheses = answer["hypotheses"]
            links = frozenset((i, j) for i, j in answer.get("alignment", ())) if not rank else None
            text = hypotheses[min(rank, len(hypotheses) - 1)]["text"]
            sentences.append(LinkedSentence(span, text, links))
        return self.page.join(self.page.split_sentences(sentences))


def create_router(service: Service) -> APIRouter:
    """Return the router with /translate, /detect and /languages."""
    router = APIRouter(tags=["LibreTranslate"])

    documented = _document(LibreTranslateRequest, 400, 401, 404, 413, 429, 500, 503)

    @router.post("/translate", response_model=LibreTranslateResponse, summary="Translate texts", **documented)
    async def translate(request: Request) -> JSONResponse:
        body = await _read_body(request, LibreTranslateRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        texts = [body.q] if isinstance(body.q, str) else body.q
        service.check_texts(texts)
        limit = service.limits.num_best - 1
        if body.alternatives > limit:
            raise InvalidRequestError(f"alternatives {body.alternatives} is too large: give at most {limit}")
        pages = [parse_html(text) for text in texts] if body.format == "html" else []
        texts = ["\n".join(page.texts) for page in pages] if pages else texts
        source = service.detect_source(texts, body.target) if body.source == "auto" else body.source
        model = service.find_model(None, source, body.target)
        to = service.choose_language(model, body.target)
        aligns = model.aligns and any(any(page.has_tags) for page in pages)
        options = TranslationOptions(model.name, model.sha256, to, num_best=1 + body.alternatives, alignment=aligns)
        found = await context.translate(texts, options, source=source)
        results: Sequence[DocumentTranslation | HtmlTranslation] = found
        if pages:
            results = [HtmlTranslation(*result, page) for result, page in zip(found, pages, strict=True)]
        return JSONResponse(_format(body, results, source), headers={"x-model-sha256": model.sha256})

    @router.post("/detect", summary="Detect a language", **_document(LibreDetectRequest, 400, 401, 413, 429))
    async def detect(request: Request) -> list[DetectedLanguage]:
        body = await _read_body(request, LibreDetectRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        service.check_texts([body.q])
        with context.charge(0):
            return [_confidence(code, probability) for code, probability in detect_languages(body.q)[:3]]

    @router.get("/languages", summary="List the languages", **_document(None, 401, 413))
    async def languages(request: Request) -> list[SourceLanguage]:
        RequestContext.authenticate(service, request, _key_in_form(await request.body()))
        targets: dict[str, set[str]] = {}
        for model in service.models.values():
            for source, target in model.pairs:
                targets.setdefault(source, set()).add(target)
        names = {code: language_name(code) for code in targets}
        return [SourceLanguage(code=code, name=names[code], targets=sorted(targets[code])) for code in targets]

    return router


def _format(
    body: LibreTranslateRequest, results: Sequence[DocumentTranslation | HtmlTranslation], source: str
) -> dict[str, Any]:
    """Return the response body: single values for one text, lists for a list of texts."""
    response: dict[str, list[Any]] = {"translatedText": [result.text() for result in results]}
    if body.alternatives:
        ranks = range(1, 1 + body.alternatives)
        response["alternatives"] = [[result.text(rank) for rank in ranks] for result in results]
    if body.source == "auto":
        ranked = [dict(detect_languages(result.document.text[:DETECT_CHARACTERS])) for result in results]
        response["detectedLanguage"] = [_confidence(source, one.get(source, 0.0)).model_dump() for one in ranked]
    return {name: values[0] for name, values in response.items()} if isinstance(body.q, str) else response


def _confidence(code: str, probability: float) -> DetectedLanguage:
    return DetectedLanguage(confidence=round(100 * probability, 1), language=code)


async def _read_body(request: Request, schema: type[RequestT]) -> RequestT:
    """Parse the request body as a form or JSON; if the body is empty, parse the query string."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not body and request.scope["query_string"]:
        media_type, body = FORM, request.scope["query_string"]
    try:
        content = _parse_form(body) if media_type == FORM else json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequestError("the body cannot be parsed: send JSON or a form") from None
    try:
        return schema.model_validate(content, strict=media_type != FORM)  # in a form, a number is written as text
    except ValidationError as error:
        raise InvalidRequestError(describe_first(error.errors())) from None


def _parse_form(body: bytes) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(body.decode(), max_num_fields=100).items()}


def _key_in_form(body: bytes) -> str | None:
    """Return the `api_key` from the body of a GET request, where the client libretranslatepy sends the key."""
    try:
        return _parse_form(body).get("api_key")
    except ValueError:  # not a form, or one with very many fields
        return None


def _document(schema: type[BaseModel] | None, *statuses: int) -> dict[str, Any]:
    """Return the arguments of a route that document its request body and its error responses."""
    responses = document_errors(*statuses, schema=LibreTranslateError)
    if schema is None:
        return {"responses": responses}
    form = schema.model_json_schema()
    form["properties"]["q"].pop("anyOf", None)
    form["properties"]["q"]["type"] = "string"  # of a repeated field, the last is taken
    content = {"application/json": {"schema": schema.model_json_schema()}, FORM: {"schema": form}}
    return {"responses": responses, "openapi_extra": {"requestBody": {"required": True, "content": content}}}
