"""The routes of LibreTranslate's API: /translate, /detect, /languages and /frontend/settings, for existing clients."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from dragoman.config import describe_first
from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, LibreTranslateError, document_errors
from dragoman.serving.languages import detect_languages, match_language
from dragoman.serving.service import DETECT_CHARACTERS, DocumentTranslation, RequestContext, Service
from dragoman.text.language_names import language_name
from dragoman.translation.document import TextDocument
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument, parse_html

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
MAX_FIELDS: Final = 100
"""The most fields of a form."""
_BOUNDARY: Final = re.compile(r'boundary="?([^";,]{1,70})"?', re.IGNORECASE)
_FIELD_NAME: Final = re.compile(rb'form-data;[^\r\n]*\bname="([^"\r\n]*)"', re.IGNORECASE)


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else value


Number = Annotated[
    int,
    BeforeValidator(_integral),
    Field(ge=0),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]{1,9}$"}]}),
]
"""An integer, in JSON too possibly written as a string, as some clients do."""


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
    alternatives: Number = Field(0, description="number of additional translations")
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
    """A language and the languages into which it is translated; a language that is only a target has none."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["de"]])


class NamedLanguage(BaseModel):
    """A language as /frontend/settings has it."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class FrontendLanguages(BaseModel):
    """The languages of the first model."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """The settings that LibreTranslate's clients ask for: whether keys are required, and how much text may be sent."""

    apiKeys: bool = Field(description="true if there are API keys")  # noqa: N815
    keyRequired: bool = Field(description="true if a request needs an API key")  # noqa: N815
    charLimit: int = Field(description="characters per request", examples=[20_000])  # noqa: N815
    frontendTimeout: int = Field(500, description="milliseconds that a page waits for more input")  # noqa: N815
    filesTranslation: bool = Field(False, description="true if /translate_file exists")  # noqa: N815
    supportedFilesFormat: list[str] = Field([], description="formats of /translate_file")  # noqa: N815
    suggestions: bool = Field(False, description="true if /suggest exists")
    language: FrontendLanguages | None


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
        pairs = [pair for model in service.models.values() for pair in model.pairs]
        target = match_language(body.target, [other for _, other in pairs])
        is_auto = body.source.lower() == "auto"
        pages = [parse_html(text) for text in texts] if body.format == "html" else []
        texts = ["\n".join(page.texts) for page in pages] if pages else texts
        known = [one for one, _ in pairs]
        source = service.detect_source(texts, target) if is_auto else match_language(body.source, known)
        model = service.find_model(None, source, target)
        to = service.choose_language(model, target)
        aligns = model.aligns and any(any(page.has_tags) for page in pages)
        options = TranslationOptions(model.name, model.sha256, to, num_best=1 + body.alternatives, alignment=aligns)
        found = await context.translate(texts, options, source=source)
        results: Sequence[DocumentTranslation | HtmlTranslation] = found
        if pages:
            results = [HtmlTranslation(*result, page) for result, page in zip(found, pages, strict=True)]
        detected = source if is_auto else None
        return JSONResponse(_format(body, results, detected), headers={"x-model-sha256": model.sha256})

    @router.post("/detect", summary="Detect a language", **_document(LibreDetectRequest, 400, 401, 413, 429))
    async def detect(request: Request) -> list[DetectedLanguage]:
        body = await _read_body(request, LibreDetectRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        service.check_texts([body.q])
        with context.charge(0):
            return [_confidence(code, probability) for code, probability in detect_languages(body.q)[:3]]

    @router.get("/languages", summary="List the languages")
    async def languages() -> list[SourceLanguage]:
        pairs = [pair for model in service.models.values() for pair in model.pairs]
        targets: dict[str, set[str]] = {source: set() for source, _ in pairs}
        targets |= {target: set() for _, target in pairs if target not in targets}
        for source, target in pairs:
            targets[source].add(target)
        names = {code: language_name(code) for code in targets}
        return [SourceLanguage(code=code, name=names[code], targets=sorted(targets[code])) for code in targets]

    @router.get("/frontend/settings", summary="Settings for LibreTranslate's clients")
    async def settings() -> FrontendSettings:
        codes = next((model.pairs[0] for model in service.models.values()), None)
        languages = None
        if codes:
            source, target = (NamedLanguage(code=code, name=language_name(code)) for code in codes)
            languages = FrontendLanguages(source=source, target=target)
        has_keys = service.keys.is_required
        return FrontendSettings(
            apiKeys=has_keys, keyRequired=has_keys, charLimit=service.limits.characters, language=languages
        )

    return router


def _format(
    body: LibreTranslateRequest, results: Sequence[DocumentTranslation | HtmlTranslation], detected: str | None
) -> dict[str, Any]:
    """Return the response body: single values for one text, lists for a list of texts."""
    response: dict[str, list[Any]] = {"translatedText": [result.text() for result in results]}
    if body.alternatives:
        ranks = range(1, 1 + body.alternatives)
        response["alternatives"] = [[result.text(rank) for rank in ranks] for result in results]
    if detected:
        ranked = [dict(detect_languages(result.document.text[:DETECT_CHARACTERS])) for result in results]
        response["detectedLanguage"] = [_confidence(detected, one.get(detected, 0.0)).model_dump() for one in ranked]
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
        if media_type == MULTIPART:
            content = _parse_multipart(body, request.headers["content-type"])
        else:
            content = _parse_form(body) if media_type == FORM else json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequestError("the body cannot be parsed: send JSON or a form") from None
    try:
        return schema.model_validate(content, strict=True)
    except ValidationError as error:
        raise InvalidRequestError(describe_first(error.errors())) from None


def _parse_form(body: bytes) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(body.decode(), max_num_fields=MAX_FIELDS).items()}


def _parse_multipart(body: bytes, content_type: str) -> dict[str, str]:
    """Return the fields of a multipart form; raise ValueError if it is none.

    The standard library parses nested parts too, which takes very long for a hostile body.
    """
    found = _BOUNDARY.search(content_type)
    if not found:
        raise ValueError("no boundary")
    _, *parts = body.split(b"--" + found[1].encode())
    if not parts or not parts[-1].startswith(b"--") or len(parts) > MAX_FIELDS:
        raise ValueError("no end of the form, or too many fields")
    fields = {}
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head)
        if name:
            fields[name[1].decode()] = content.removesuffix(b"\r\n").decode()
    return fields


def _document(schema: type[BaseModel] | None, *statuses: int) -> dict[str, Any]:
    """Return the arguments of a route that document its request body and its error responses."""
    responses = document_errors(*statuses, schema=LibreTranslateError)
    if schema is None:
        return {"responses": responses}
    form = schema.model_json_schema()
    form["properties"]["q"].pop("anyOf", None)
    form["properties"]["q"]["type"] = "string"  # of a repeated field, the last is taken
    content = {"application/json": {"schema": schema.model_json_schema()}}
    content |= {media_type: {"schema": form} for media_type in (FORM, MULTIPART)}
    return {"responses": responses, "openapi_extra": {"requestBody": {"required": True, "content": content}}}
