"""The routes /v1/translate and /v1/models, with options and results that LibreTranslate's API lacks."""

import math
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from dragoman.api_schemas import ModelInfo, ModelList, ServiceRequest, ServiceResponse
from dragoman.serving.config import Limits
from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, document_errors
from dragoman.serving.service import DocumentTranslation, RequestContext, Service, log_texts
from dragoman.serving.streaming import EVENT_STREAM, EventStream, TranslationStream

OPTION_FIELDS = {"beam_size", "num_best", "protect", "tokens", "alignment", "prefix"}
"""Fields of a request that are translation options of the same name."""
ERRORS = document_errors(400, 401, 404, 413, 422, 429, 500, 503)
_EVENTS = "With `stream`, server-sent events: `sentence` for each sentence, `done` with the whole answer, or `error`"
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": _EVENTS, "content": {EVENT_STREAM: {}}},
    **ERRORS,
}


def create_router(service: Service) -> APIRouter:
    """Return the router with /v1/translate and /v1/models."""
    router = APIRouter(prefix="/v1", tags=["translation"])

    @router.post(
        "/translate", response_model=ServiceResponse, responses=ANSWERS, summary="Translate texts, with scores"
    )
    async def translate(request: Request, body: ServiceRequest) -> Response:
        context = RequestContext.authenticate(service, request)
        texts = [body.texts] if isinstance(body.texts, str) else body.texts
        service.check_texts(texts, body.prefix)
        detected = service.detect_source(texts, body.target) if body.source == "auto" else None
        model = service.find_model(body.model, detected or body.source, body.target)
        options = _translation_options(body, model, service.limits)
        options = options._replace(to=service.choose_language(model, body.target))
        glossary = service.find_glossary(body.glossary)
        if glossary and body.prefix:
            raise InvalidRequestError("prefix and glossary cannot be combined: omit one of them")

        def write_response(results: list[DocumentTranslation]) -> dict[str, Any]:
            # A dict in the shape of ServiceResponse: to validate what we just made would cost time.
            translations = [_format_text(result) for result in results]
            model_ref = {"name": model.name, "sha256": model.sha256}
            return {"model": model_ref, "translations": translations, "detected": detected}

        source = detected or body.source
        if body.stream or EVENT_STREAM in request.headers.get("accept", ""):
            log_texts(context, texts, model.name)
            plan = service.plan(texts, options, body.split, glossary, source)
            stream = await TranslationStream.start(context, plan)
            return EventStream(stream.events(_format_sentence, write_response), stream.close)
        return JSONResponse(write_response(await context.translate(texts, options, body.split, glossary, source)))

    @router.get("/models", responses=document_errors(401, 429), summary="List the models")
    async def models(request: Request) -> ModelList:
        RequestContext.authenticate(service, request)
        return ModelList(models=tuple(service.models.values()))

    return router


def _translation_options(body: ServiceRequest, model: ModelInfo, limits: Limits) -> TranslationOptions:
    """Return the options of a request; raise InvalidRequestError if they exceed a limit or conflict."""
    if body.num_best > limits.num_best or (body.beam_size or 1) > limits.beam_size:
        raise InvalidRequestError(f"too large: give num_best <= {limits.num_best} and beam_size <= {limits.beam_size}")
    if body.beam_size is not None and body.num_best > body.beam_size:
        raise InvalidRequestError(f"num_best {body.num_best} exceeds beam_size {body.beam_size}: lower num_best")
    if body.alignment and not model.aligns:
        raise InvalidRequestError("the export has no alignment head: omit alignment, or give another model")
    penalty = body.penalty.model_dump() if body.penalty else {}
    return TranslationOptions(model.name, model.sha256, **body.model_dump(include=OPTION_FIELDS), **penalty)


def _format_text(result: DocumentTranslation) -> dict[str, Any]:
    sentences = map(_format_sentence, result.document.sentences, result.answers)
    return {"text": result.text(), "sentences": list(sentences)}


def _format_sentence(source: str, answer: Answer) -> dict[str, Any]:
    best, *others = answer["hypotheses"]
    length = answer["num_tokens"]
    confidence = round(math.exp(best["log_probability"] / length), 4) if length else None
    requested = {name: answer[name] for name in ("kept", "tokens", "alignment", "terms") if name in answer}
    return {"source": source, **best, "confidence": confidence, "others": others, **requested}
