"""The routes /v2/translate, /v2/languages and /v2/usage of DeepL's API, for existing clients."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from dragoman.api_schemas import ModelInfo
from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.errors import DeepLError, InvalidRequestError, UnknownModelError, document_errors
from dragoman.serving.glossary_store import merge_glossaries
from dragoman.serving.languages import match_language
from dragoman.serving.markup_translation import translate_markup
from dragoman.serving.request_body import FORM, Flag, read_body
from dragoman.serving.service import RequestContext, Service
from dragoman.text.language_names import language_name
from dragoman.translation.glossary import Glossary
from dragoman.translation.markup import MarkupDocument, TagRules, parse_html, parse_xml

UNLIMITED: Final = 1_000_000_000_000
"""The limit that DeepL gives for a key without a limit."""
VARIANTS: Final = {
    "EN": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "PT": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""Target languages that DeepL's clients accept with a region only."""
MAX_GLOSSARIES: Final = 5
"""The most glossaries of a request."""
_REPEATED: Final = frozenset({"text", "ignore_tags", "splitting_tags", "non_splitting_tags", "glossary_ids"})
_ROOT: Final = "dragoman-root"
_DECLARATION: Final = re.compile(r"\s*<\?xml\s[^>]*\?>")
_LINE_BREAK: Final = re.compile(r"(?<=\S)[^\S\n]*\n[^\S\n]*(?=\S)")


def _split_names(value: Any) -> Any:
    """Return the names of a list in which one string may have several, with commas between them."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        return value
    return [name.strip() for one in values for name in one.split(",") if name.strip()]


_TEXTS: Final = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}
Names = Annotated[list[str], BeforeValidator(_split_names), WithJsonSchema(_TEXTS)]
Texts = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{**_TEXTS["anyOf"][0], "minItems": 1}, {"type": "string"}]}),
]
_SPLITS: Final = ["0", "1", "nonewlines", "False", "True", 0, 1, False, True]
Choice = BeforeValidator(lambda value: str(value) if isinstance(value, bool | int) else value)


class DeepLTranslateRequest(BaseModel):
    """A request to /v2/translate, as a form or as JSON. Unknown fields are ignored."""

    text: Texts = Field(description="texts to translate", examples=[["Where is the station?"]])
    target_lang: str = Field(description="target language; a region is ignored", examples=["DE"])
    source_lang: str | None = Field(None, description="source language; detected if omitted", examples=["EN"])
    context: str | None = Field(None, description="ignored")
    split_sentences: Annotated[
        Literal["0", "1", "nonewlines", "False", "True"], Choice, WithJsonSchema({"enum": _SPLITS})
    ] = Field("1", description="0: each line is one sentence; nonewlines: line breaks within a paragraph are spaces")
    preserve_formatting: Flag = Field(False, description="ignored: formatting always stays")
    formality: Literal["default", "prefer_more", "prefer_less", "more", "less"] = Field(
        "default", description="more and less are refused, the others ignored"
    )
    glossary_id: str | None = Field(None, description="a stored glossary; needs source_lang")
    glossary_ids: Names = Field([], max_length=MAX_GLOSSARIES, description="several stored glossaries, in this order")
    tag_handling: Literal["xml", "html"] | None = Field(None, description="tags of the texts, which are carried over")
    outline_detection: Flag = Field(True, description="false: only splitting_tags begin and end a text")
    ignore_tags: Names = Field([], description="elements whose content is not translated", examples=[["x"]])
    splitting_tags: Names = Field([], description="tags that begin and end a text")
    non_splitting_tags: Names = Field([], description="tags that stand within a text")
    show_billed_characters: Flag = Field(False, description="return the number of characters of each text")
    style_id: str | None = Field(None, description="refused: there are no style rules")
    translation_memory_id: str | None = Field(None, description="refused: there are no translation memories")
    custom_instructions: Names = Field([], description="refused: models take no instructions")
    auth_key: str | None = Field(None, description="API key, if not in the header Authorization")


class DeepLTranslation(BaseModel):
    """A translated text."""

    detected_source_language: str = Field(examples=["EN"])
    text: str = Field(examples=["Wo ist der Bahnhof?"])
    billed_characters: int | None = Field(None, description="characters of the source, if requested", examples=[21])


class DeepLTranslateResponse(BaseModel):
    """The response of /v2/translate: one translation per text."""

    translations: list[DeepLTranslation]


class DeepLKey(BaseModel):
    """A request with nothing but a key."""

    auth_key: str | None = Field(None, description="API key, if not in the header Authorization")


class DeepLLanguagesRequest(DeepLKey):
    """A request to /v2/languages, in the URL or as a form."""

    type: Literal["source", "target"] = Field("source", description="source or target languages")


class DeepLLanguage(BaseModel):
    """A language; regions are ignored in translations."""

    language: str = Field(examples=["DE"])
    name: str = Field(examples=["German"])
    supports_formality: bool | None = None


class DeepLUsage(BaseModel):
    """The characters that the key has used today, and its quota per day."""

    character_count: int
    character_limit: int


class _Languages(NamedTuple):
    """The languages of a request and the model for them."""

    model: ModelInfo
    source: str
    target: str | None
    """The target language, if the model translates into several."""

    @staticmethod
    def choose(service: Service, body: DeepLTranslateRequest, texts: Sequence[str]) -> "_Languages":
        pairs = [pair for model in service.models.values() for pair in model.pairs]
        target = match_language(body.target_lang, [other for _, other in pairs])
        try:
            if body.source_lang:
                source = match_language(body.source_lang, [one for one, _ in pairs])
            else:
                source = service.detect_source(texts, target)
            model = service.find_model(None, source, target)
            return _Languages(model, source, service.choose_language(model, target))
        except UnknownModelError as error:  # 404 is for glossaries
            raise InvalidRequestError(error.detail) from None


def owner_of(context: RequestContext) -> str:
    """Return the name of the key of a request; "" if the service requires none."""
    return context.usage.key.name if context.usage else ""


def base_language(code: str) -> str:
    """Return a language code in lower case and without region: en for EN-US."""
    return code.strip().lower().replace("_", "-").partition("-")[0]


def create_router(service: Service) -> APIRouter:
    """Return the router with /v2/translate, /v2/languages and /v2/usage."""
    router = APIRouter(prefix="/v2", tags=["DeepL"])

    @router.post(
        "/translate",
        response_model=DeepLTranslateResponse,
        summary="Translate texts",
        **document(DeepLTranslateRequest, 400, 403, 404, 413, 429, 456, 500),
    )
    async def translate(request: Request) -> JSONResponse:
        body = await read_body(request, DeepLTranslateRequest, _REPEATED, keep_blank=True)
        context = RequestContext.authenticate(service, request, body.auth_key)
        service.check_texts(body.text)
        _refuse_unsupported(body)
        pages = [_parse_page(text, body) for text in body.text] if body.tag_handling else []
        texts = ["\n".join(page.texts) for page in pages] if pages else _read_lines(body)
        model, source, target = _Languages.choose(service, body, texts)
        glossary = _find_glossary(context, body)
        options = TranslationOptions(model.name, model.sha256, target)
        split = body.split_sentences not in ("0", "False")
        if pages:
            found = await translate_markup(context, pages, options, model.aligns, split, glossary, source)
            translated = [result.text() for result in found]
            translated = [_unwrap(text) for text in translated] if body.tag_handling == "xml" else translated
        else:
            translated = [result.text() for result in await context.translate(texts, options, split, glossary, source)]
        billed = [{"billed_characters": len(text)} if body.show_billed_characters else {} for text in texts]
        language = {"detected_source_language": source.upper()}
        answers = [{**language, "text": text, **more} for text, more in zip(translated, billed, strict=True)]
        return JSONResponse({"translations": answers}, headers={"x-model-sha256": model.sha256})

    listed: dict[str, Any] = {"response_model": list[DeepLLanguage], "response_model_exclude_none": True}
    listed |= {"summary": "List the languages"}

    @router.get("/languages", **listed, **document(DeepLLanguagesRequest, 400, 403, 413, 429, is_query=True))
    @router.post("/languages", **listed, **document(DeepLLanguagesRequest, 400, 403, 413, 429))
    async def languages(request: Request) -> list[DeepLLanguage]:
        body = await read_body(request, DeepLLanguagesRequest, keep_blank=True)
        RequestContext.authenticate(service, request, body.auth_key)
        pairs = [pair for model in service.models.values() for pair in model.pairs]
        if body.type == "source":
            codes = dict.fromkeys(source for source, _ in pairs)
            return [DeepLLanguage(language=code.upper(), name=language_name(code)) for code in codes]
        names = {code.upper(): language_name(code) for _, code in pairs}
        regional = [VARIANTS.get(code, {code: name}) for code, name in names.items()]
        return [
            DeepLLanguage(language=code, name=name, supports_formality=False)
            for some in regional
            for code, name in some.items()
        ]

    @router.get("/usage", summary="Show the usage of the key", **document(DeepLKey, 400, 403, 413, 429, is_query=True))
    @router.post("/usage", summary="Show the usage of the key", **document(DeepLKey, 400, 403, 413, 429))
    async def usage(request: Request) -> DeepLUsage:
        body = await read_body(request, DeepLKey)
        context = RequestContext.authenticate(service, request, body.auth_key)
        count = await context.count_characters_today()
        limit = context.usage.key.characters_per_day if context.usage else None
        return DeepLUsage(character_count=count, character_limit=limit or UNLIMITED)

    return router


def _refuse_unsupported(body: DeepLTranslateRequest) -> None:
    """Raise InvalidRequestError for a field that would change the translation and cannot."""
    if body.formality in ("more", "less"):
        fix = "omit formality, or give prefer_more or prefer_less, which are ignored"
        raise InvalidRequestError(f"formality {body.formality} is not supported by this model: {fix}")
    for name in ("style_id", "translation_memory_id", "custom_instructions"):
        if getattr(body, name):
            raise InvalidRequestError(f"{name} is not supported: omit it")
    if (body.glossary_id or body.glossary_ids) and not body.source_lang:
        raise InvalidRequestError("a glossary needs source_lang: give it")


def _read_lines(body: DeepLTranslateRequest) -> list[str]:
    if body.split_sentences != "nonewlines":
        return body.text
    return [_LINE_BREAK.sub(" ", text) for text in body.text]


def _parse_page(text: str, body: DeepLTranslateRequest) -> MarkupDocument:
    """Read a text with tags; XML may be a fragment without a root element."""
    lists: tuple[list[str], ...] = (body.ignore_tags, body.splitting_tags, body.non_splitting_tags)
    if body.tag_handling == "html":
        lists = tuple([name.lower() for name in some] for some in lists)
    ignored, splitting, inline = map(frozenset, lists)
    if body.tag_handling == "html":
        return parse_html(text, TagRules(ignored, splitting, inline, body.outline_detection))
    rules = TagRules(ignored, splitting | {_ROOT}, inline, body.outline_detection)
    declaration = _DECLARATION.match(text)
    end = declaration.end() if declaration else 0
    try:
        page = parse_xml(f"<{_ROOT}>{text[end:]}</{_ROOT}>", rules)
    except ValueError as error:
        raise InvalidRequestError(f"tag handling failed, {error}") from None
    return MarkupDocument((text[:end], *page.parts))


def _unwrap(text: str) -> str:
    """Return translated XML without the root element that was put around it."""
    return text.replace(f"<{_ROOT}>", "", 1).removesuffix(f"</{_ROOT}>")


def _find_glossary(context: RequestContext, body: DeepLTranslateRequest) -> Glossary | None:
    """Return the terms of the glossaries that a request names."""
    ids = [body.glossary_id] if body.glossary_id else body.glossary_ids
    pair = base_language(body.source_lang or ""), base_language(body.target_lang)
    stored = [context.service.stored_glossaries.find(owner_of(context), name) for name in ids]
    return merge_glossaries([glossary.find(pair) for glossary in stored])


def document(schema: type[BaseModel] | None, *statuses: int, is_query: bool = False) -> dict[str, Any]:
    """Return the arguments of a route that document its request body or its query string, and its error responses."""
    arguments: dict[str, Any] = {"responses": document_errors(*statuses, schema=DeepLError)}
    if schema is None:
        return arguments
    shape = schema.model_json_schema(ref_template="#/components/schemas/{model}")
    shape.pop("$defs", None)  # they are components of the document, as parts of responses
    if is_query:
        fields = shape["properties"].items()
        parameters = [{"name": name, "in": "query", "required": False, "schema": field} for name, field in fields]
        return arguments | {"openapi_extra": {"parameters": parameters}}
    content = {media_type: {"schema": shape} for media_type in ("application/json", FORM)}
    return arguments | {"openapi_extra": {"requestBody": {"required": "required" in shape, "content": content}}}
