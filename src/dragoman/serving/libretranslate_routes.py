"""The routes of LibreTranslate's API: /translate, /detect, /languages and /frontend/settings, for existing clients."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from dragoman.api_schemas import ModelInfo
from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.errors import ForbiddenError, InvalidRequestError, LibreTranslateError, document_errors
from dragoman.serving.languages import detect_languages, match_language
from dragoman.serving.markup_translation import MarkupTranslation, translate_markup
from dragoman.serving.request_body import FORM, MULTIPART, Number, read_body
from dragoman.serving.service import DETECT_CHARACTERS, DocumentTranslation, RequestContext, Service
from dragoman.text.language_names import language_name
from dragoman.translation.file_formats import SUFFIXES
from dragoman.translation.markup import parse_html


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


FILE_SUFFIXES: Final = [suffix for suffix, kind in SUFFIXES.items() if kind not in ("jsonl", "parquet")]
"""The endings of the names of files that /translate_file takes."""


class FrontendSettings(BaseModel):
    """The settings that LibreTranslate's clients ask for: whether keys are required, and how much text may be sent."""

    apiKeys: bool = Field(description="true if there are API keys")  # noqa: N815
    keyRequired: bool = Field(description="true if a request needs an API key")  # noqa: N815
    charLimit: int = Field(description="characters per request", examples=[20_000])  # noqa: N815
    frontendTimeout: int = Field(500, description="milliseconds that a page waits for more input")  # noqa: N815
    filesTranslation: bool = Field(True, description="true if /translate_file exists")  # noqa: N815
    supportedFilesFormat: list[str] = Field(FILE_SUFFIXES, description="formats of /translate_file")  # noqa: N815
    suggestions: bool = Field(False, description="true if /suggest exists")
    language: FrontendLanguages | None


class ChosenLanguages(NamedTuple):
    """The languages of a request, and the model for them."""

    model: ModelInfo
    source: str
    to: str | None
    """The target language, if the model translates into several."""
    detected: str | None
    """The source language, if it was detected."""


def choose_languages(service: Service, source: str, target: str, texts: Sequence[str]) -> ChosenLanguages:
    """Return the languages that a client means, and the first model for them; raise RejectedError if there is none."""
    pairs = [pair for model in service.models.values() for pair in model.pairs]
    target = match_language(target, [other for _, other in pairs])
    detected = service.detect_source(texts, target) if source.lower() == "auto" else None
    source = detected or match_language(source, [one for one, _ in pairs])
    model = service.find_model(None, source, target)
    return ChosenLanguages(model, source, service.choose_language(model, target), detected)


def create_router(service: Service) -> APIRouter:
    """Return the router with /translate, /detect and /languages."""
    router = APIRouter(tags=["LibreTranslate"])

    documented = _document(LibreTranslateRequest, 400, 401, 404, 413, 429, 500, 503)

    @router.post("/translate", response_model=LibreTranslateResponse, summary="Translate texts", **documented)
    async def translate(request: Request) -> JSONResponse:
        body = await read_body(request, LibreTranslateRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        texts = [body.q] if isinstance(body.q, str) else body.q
        service.check_texts(texts)
        limit = service.limits.num_best - 1
        if body.alternatives > limit:
            raise InvalidRequestError(f"alternatives {body.alternatives} is too large: give at most {limit}")
        pages = [parse_html(text) for text in texts] if body.format == "html" else []
        texts = ["\n".join(page.texts) for page in pages] if pages else texts
        model, source, to, detected = choose_languages(service, body.source, body.target, texts)
        options = TranslationOptions(model.name, model.sha256, to, num_best=1 + body.alternatives)
        results: Sequence[DocumentTranslation | MarkupTranslation]
        if pages:
            results = await translate_markup(context, pages, options, model.aligns, source=source)
        else:
            results = await context.translate(texts, options, source=source)
        return JSONResponse(_format(body, results, detected), headers={"x-model-sha256": model.sha256})

    @router.post("/detect", summary="Detect a language", **_document(LibreDetectRequest, 400, 401, 413, 429))
    async def detect(request: Request) -> list[DetectedLanguage]:
        body = await read_body(request, LibreDetectRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        service.check_texts([body.q])
        async with context.charge(0):
            return [_confidence(code, probability) for code, probability in detect_languages(body.q)[:3]]

    @router.post("/suggest", include_in_schema=False)
    async def suggest() -> None:
        raise ForbiddenError("suggestions are disabled on this server")

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
    body: LibreTranslateRequest, results: Sequence[DocumentTranslation | MarkupTranslation], detected: str | None
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
