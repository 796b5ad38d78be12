"""Our own routes: what LibreTranslate's lack."""

import math
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from dragoman.serving.asked import Answered, Asked, LengthPenalty, Models
from dragoman.serving.door import Door, tell, unless_gone
from dragoman.serving.facts import Facts
from dragoman.serving.languages import detected
from dragoman.serving.piece import Wish
from dragoman.serving.problem import responses
from dragoman.serving.refusal import MistakenError
from dragoman.serving.service import Found

FAILURES = responses(400, 401, 404, 413, 422, 429, 500, 503, ours=True)


def router(door: Door) -> APIRouter:
    """/v1/translate and /v1/models."""
    made = APIRouter(prefix="/v1", tags=["translation"])

    @made.post("/translate", response_model=Answered, responses=FAILURES, summary="Translate texts, with all there is")
    async def translate(request: Request, asked: Asked) -> JSONResponse:
        usage = door.whose(request)
        texts = [asked.texts] if isinstance(asked.texts, str) else asked.texts
        door.service.refuse_too_much(texts, asked.prefix)
        source = detected_among(door, texts, asked.target) if asked.source == "auto" else None
        facts = door.service.model(asked.model, source or asked.source, asked.target)
        wish = _wish(door, asked, facts)
        if usage is not None:
            usage.count(sum(map(len, texts)))
        tell(request, texts=len(texts), characters=sum(map(len, texts)), model=facts.name)
        found = await unless_gone(request, door.service.translate(texts, wish, asked.split))
        content = {
            "model": {"name": facts.name, "sha256": facts.sha256},
            "translations": [_translation(one, wish) for one in found],
            "detected": source,
        }
        return JSONResponse(content)

    @made.get("/models", response_model=Models, responses=responses(401, ours=True), summary="What is served")
    async def models(request: Request) -> Any:
        door.whose(request)
        return Models(models=list(door.service.models.values()))

    return made


def detected_among(door: Door, texts: list[str], target: str | None) -> str:
    """The likeliest language of those that a model reads which writes the target."""
    sources = {facts.source for facts in door.service.models.values() if target in (None, facts.target)}
    ranked = detected("\n".join(texts)[:2000])
    for code, _ in ranked:
        if code in sources:
            return code
    return next(iter(sources), ranked[0][0])


def _wish(door: Door, asked: Asked, facts: Facts) -> Wish:
    limits = door.service.limits
    if asked.num_best > limits.num_best or (asked.beam_size or 1) > limits.beam_size:
        raise MistakenError(f"at most {limits.num_best} translations and a beam of {limits.beam_size} can be asked for")
    if asked.beam_size is not None and asked.num_best > asked.beam_size:
        raise MistakenError(f"num_best {asked.num_best} needs a beam_size as large, not {asked.beam_size}")
    if asked.alignment and (asked.protect or asked.prefix or not facts.aligns):
        why = "this model knows no head to align by" if not facts.aligns else "not together with protect or prefix"
        raise MistakenError(f"alignment: {why}")
    if asked.prefix and asked.protect:
        raise MistakenError("give a prefix, or protect, not both")
    penalty = asked.penalty or LengthPenalty(formula=None, alpha=None)
    return Wish(
        facts.name,
        facts.sha256,
        asked.beam_size,
        asked.num_best,
        penalty.formula,
        penalty.alpha,
        asked.protect,
        asked.tokens,
        asked.alignment,
        asked.prefix,
    )


def _translation(found: Found, wish: Wish) -> dict[str, Any]:
    pairs = zip(found.document.sentences, found.answers, strict=True)
    return {"text": found.text, "sentences": [_sentence(source, answer, wish) for source, answer in pairs]}


def _sentence(source: str, answer: dict[str, Any], wish: Wish) -> dict[str, Any]:
    (text, score, log_probability), *others = answer["hypotheses"]
    number = answer["num_tokens"]
    made: dict[str, Any] = {
        "source": source,
        "text": text,
        "score": score,
        "log_probability": log_probability,
        "confidence": round(math.exp(log_probability / number), 4) if number else None,
        "others": [dict(zip(("text", "score", "log_probability"), one, strict=True)) for one in others],
    }
    if wish.tokens:
        made["tokens"] = [{"piece": piece, "log_probability": score} for piece, score in answer["tokens"]]
    if wish.alignment:
        made["alignment"] = answer["alignment"]
    return made
