"""LibreTranslate's routes, in its words, for the clients that already speak to it."""

import json
from typing import Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.serving.asked import Whole
from dragoman.serving.door import Door, tell, unless_gone
from dragoman.serving.languages import detected, name_of
from dragoman.serving.piece import Wish
from dragoman.serving.problem import responses
from dragoman.serving.refusal import MistakenError
from dragoman.serving.service import Found
from dragoman.serving.v1 import detected_among

FORM: Final = "application/x-www-form-urlencoded"
FAILURES: Final = responses(400, 401, 404, 413, 429, 500, 503, ours=False)


class Wanted(BaseModel):
    """A request to translate, as a form or as JSON."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    q: str | list[str] = Field(description="the text, or texts", examples=["Where is the station?"])
    source: str = Field(description="the language of the text, or auto", examples=["en"])
    target: str = Field(description="the language wanted", examples=["de"])
    format: Literal["text"] = Field("text", description="text alone: HTML is not taken apart here")
    alternatives: Whole = Field(0, ge=0, description="how many more translations to give")
    api_key: str | None = Field(None, description="where one is needed")


class Looked(BaseModel):
    """A request to find out a language."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    q: str = Field(description="the text", examples=["Where is the station?"])
    api_key: str | None = None


class Guess(BaseModel):
    """A language that a text may be in."""

    confidence: float = Field(description="0 to 100", examples=[97.0])
    language: str = Field(examples=["en"])


class Said(BaseModel):
    """The translation of the text, or those of the texts."""

    translatedText: str | list[str] = Field(examples=["Wo ist der Bahnhof?"])  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Guess | list[Guess] | None = None  # noqa: N815


class Language(BaseModel):
    """A language that can be translated from."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["de"]])


def router(door: Door) -> APIRouter:
    """/translate, /detect and /languages."""
    made = APIRouter(tags=["LibreTranslate"])

    @made.post(
        "/translate",
        response_model=Said,
        responses=FAILURES,
        openapi_extra=_body(Wanted),
        summary="Translate a text or several",
    )
    async def translate(request: Request) -> JSONResponse:
        return await _translate(door, request)

    @made.post(
        "/detect",
        response_model=list[Guess],
        responses=responses(400, 401, 413, 429, ours=False),
        openapi_extra=_body(Looked),
        summary="Find out the language of a text",
    )
    async def detect(request: Request) -> list[Guess]:
        wanted = await _read(request, Looked)
        usage = door.whose(request, wanted.api_key)
        door.service.refuse_too_much([wanted.q])
        if usage is not None:
            usage.count(0)
        return [Guess(confidence=round(100 * likely, 1), language=code) for code, likely in detected(wanted.q)[:3]]

    @made.get(
        "/languages",
        response_model=list[Language],
        responses=responses(401, 413, ours=False),
        summary="What can be asked",
    )
    async def languages(request: Request) -> list[Language]:
        door.whose(request, _in_form(await request.body()))
        targets: dict[str, list[str]] = {}
        for facts in door.service.models.values():
            targets.setdefault(facts.source, []).append(facts.target)
        return [Language(code=code, name=name_of(code), targets=sorted(set(some))) for code, some in targets.items()]

    return made


async def _translate(door: Door, request: Request) -> JSONResponse:
    wanted = await _read(request, Wanted)
    usage = door.whose(request, wanted.api_key)
    texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
    door.service.refuse_too_much(texts)
    most = door.service.limits.num_best - 1
    if wanted.alternatives > most:
        raise MistakenError(f"at most {most} alternatives can be asked for")
    source = detected_among(door, texts, wanted.target) if wanted.source == "auto" else wanted.source
    facts = door.service.model(None, source, wanted.target)
    if usage is not None:
        usage.count(sum(map(len, texts)))
    tell(request, texts=len(texts), characters=sum(map(len, texts)), model=facts.name)
    wish = Wish(facts.name, facts.sha256, num_best=1 + wanted.alternatives)
    found = await unless_gone(request, door.service.translate(texts, wish))
    return JSONResponse(_said_of(wanted, texts, found, source), headers={"x-model-sha256": facts.sha256})


def _said_of(wanted: Wanted, texts: list[str], found: list[Found], source: str) -> dict[str, Any]:
    """One of each for one text, lists for several."""
    single = isinstance(wanted.q, str)
    answer: dict[str, Any] = {"translatedText": _one(single, [one.text for one in found])}
    if wanted.alternatives:
        others = [[one.other(place) for place in range(1, 1 + wanted.alternatives)] for one in found]
        answer["alternatives"] = _one(single, others)
    if wanted.source == "auto":
        answer["detectedLanguage"] = _one(single, [_guess(text, source) for text in texts])
    return answer


async def _read(request: Request, shape: type[BaseModel]) -> Any:
    """The body as a form, as the oldest clients send it, or as JSON; or, without a body, what stands in the URL."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not body and request.scope["query_string"]:
        kind, body = FORM, request.scope["query_string"]
    try:
        given = _form(body) if kind == FORM else json.loads(body)
    except (ValueError, RecursionError):
        raise MistakenError("the body is neither a form nor JSON") from None
    try:
        return shape.model_validate(given, strict=kind != FORM)  # in a form, a number is written as text
    except ValidationError as error:
        raise MistakenError(_said(error)) from None


def _said(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place + ': ' if place else ''}{first['msg']}".encode(errors="replace").decode()


def _form(body: bytes) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(body.decode(), max_num_fields=100).items()}


def _in_form(body: bytes) -> str | None:
    """The key in the body of a GET, where one client library puts it."""
    try:
        return _form(body).get("api_key")
    except ValueError:  # no form at all, or one of very many fields: then it holds no key
        return None


def _one(single: bool, several: list[Any]) -> Any:
    return several[0] if single else several


def _guess(text: str, source: str) -> dict[str, Any]:
    likely = dict(detected(text[:2000])).get(source, 0.0)
    return {"confidence": round(100 * likely, 1), "language": source}


def _body(shape: type[BaseModel]) -> dict[str, Any]:
    form = shape.model_json_schema()
    form["properties"]["q"].pop("anyOf", None)
    form["properties"]["q"]["type"] = "string"  # of a field that comes twice, the last is taken
    content = {"application/json": {"schema": shape.model_json_schema()}, FORM: {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}
