"""The routes of DeepL's API for glossaries, which clients store in the memory of the service.

/v2/glossaries has glossaries of one language pair, /v3/glossaries of several. Both show all glossaries of a key, except
that /v2 shows those of exactly one pair.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, StringConstraints

from dragoman.serving.deepl_routes import base_language, document, owner_of
from dragoman.serving.errors import InvalidRequestError, UnknownModelError
from dragoman.serving.glossary_store import LanguagePair, StoredGlossary, merge_glossaries
from dragoman.serving.request_body import read_body
from dragoman.serving.service import RequestContext, Service
from dragoman.translation.glossary import Glossary

TSV: Final = "text/tab-separated-values"
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1024)]
ERRORS: Final = (400, 403, 404, 413, 429, 456)


class DictionaryPair(BaseModel):
    """The languages of a dictionary."""

    source_lang: str = Field(examples=["en"])
    target_lang: str = Field(examples=["de"])

    @property
    def pair(self) -> LanguagePair:
        """The languages without regions."""
        return base_language(self.source_lang), base_language(self.target_lang)


class DictionaryEntries(DictionaryPair):
    """The terms of a language pair."""

    entries: str = Field(description="a source term and a target term per line", examples=["station\tBahnhof"])
    entries_format: Literal["tsv", "csv"] = "tsv"


class CreateGlossaryRequest(DictionaryEntries):
    """A request to create a glossary of one language pair."""

    name: Name = Field(examples=["Railways"])


class CreateMultilingualGlossaryRequest(BaseModel):
    """A request to create a glossary of several language pairs."""

    name: Name = Field(examples=["Railways"])
    dictionaries: list[DictionaryEntries] = Field(min_length=1)


class ChangeGlossaryRequest(BaseModel):
    """A request to rename a glossary, or to add terms to it."""

    name: Name | None = None
    dictionaries: list[DictionaryEntries] = Field(default_factory=list)


class LanguagePairs(BaseModel):
    """The language pairs that glossaries may have."""

    supported_languages: list[DictionaryPair]


class GlossaryInfo(BaseModel):
    """A glossary of one language pair."""

    glossary_id: str
    name: str
    ready: bool = True
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """The glossaries of one language pair."""

    glossaries: list[GlossaryInfo]


class DictionaryInfo(DictionaryPair):
    """A dictionary of a glossary."""

    entry_count: int


class MultilingualGlossaryInfo(BaseModel):
    """A glossary with its dictionaries."""

    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryInfo]


class MultilingualGlossaryList(BaseModel):
    """All glossaries of a key."""

    glossaries: list[MultilingualGlossaryInfo]


class DictionaryList(BaseModel):
    """The terms of a dictionary."""

    dictionaries: list[DictionaryEntries]


def create_router(service: Service) -> APIRouter:
    """Return the router with the glossaries of /v2 and /v3."""
    router = APIRouter(tags=["DeepL"])
    _add_v2_routes(router, service)
    _add_v3_routes(router, service)
    return router


def _add_v2_routes(router: APIRouter, service: Service) -> None:
    store, limits = service.stored_glossaries, service.limits
    documented = document(CreateGlossaryRequest, *ERRORS)
    failing = document(None, 403, 404, 429)

    @router.get("/v2/glossary-language-pairs", summary="List the language pairs of glossaries", **failing)
    async def pairs(request: Request) -> LanguagePairs:
        RequestContext.authenticate(service, request)
        found = {tuple(map(base_language, pair)): pair for model in service.models.values() for pair in model.pairs}
        listed = [DictionaryPair(source_lang=source, target_lang=target) for source, target in found]
        return LanguagePairs(supported_languages=listed)

    @router.post("/v2/glossaries", status_code=201, summary="Store a glossary", **documented)
    async def create(request: Request) -> GlossaryInfo:
        body = await read_body(request, CreateGlossaryRequest)
        owner = owner_of(RequestContext.authenticate(service, request))
        return _describe(store.create(owner, body.name, _read_dictionaries([body]), limits))

    @router.get("/v2/glossaries", summary="List the glossaries of one language pair", **failing)
    async def list_all(request: Request) -> GlossaryList:
        owner = owner_of(RequestContext.authenticate(service, request))
        return GlossaryList(glossaries=[_describe(one) for one in store.list(owner) if len(one.dictionaries) == 1])

    @router.get("/v2/glossaries/{glossary_id}", summary="Describe a glossary", **failing)
    async def describe(request: Request, glossary_id: str) -> GlossaryInfo:
        owner = owner_of(RequestContext.authenticate(service, request))
        return _describe(_require_single(store.find(owner, glossary_id)))

    tsv: dict[str, Any] = {"response_class": Response}
    tsv["responses"] = {**failing["responses"], 200: {"content": {TSV: {"schema": {"type": "string"}}}}}

    @router.get("/v2/glossaries/{glossary_id}/entries", summary="Return the terms of a glossary", **tsv)
    async def entries(request: Request, glossary_id: str) -> Response:
        owner = owner_of(RequestContext.authenticate(service, request))
        (glossary,) = _require_single(store.find(owner, glossary_id)).dictionaries.values()
        return Response(_write_entries(glossary), media_type=f"{TSV}; charset=utf-8")

    @router.delete("/v2/glossaries/{glossary_id}", status_code=204, summary="Delete a glossary", **failing)
    async def delete(request: Request, glossary_id: str) -> None:
        store.delete(owner_of(RequestContext.authenticate(service, request)), glossary_id)


def _add_v3_routes(router: APIRouter, service: Service) -> None:
    store, limits = service.stored_glossaries, service.limits
    failing = document(None, 400, 403, 404, 422, 429)

    @router.post(
        "/v3/glossaries",
        status_code=201,
        summary="Store a glossary",
        **document(CreateMultilingualGlossaryRequest, *ERRORS),
    )
    async def create(request: Request) -> MultilingualGlossaryInfo:
        body = await read_body(request, CreateMultilingualGlossaryRequest)
        owner = owner_of(RequestContext.authenticate(service, request))
        return _describe_all(store.create(owner, body.name, _read_dictionaries(body.dictionaries), limits))

    @router.get("/v3/glossaries", summary="List the glossaries", **failing)
    async def list_all(request: Request) -> MultilingualGlossaryList:
        owner = owner_of(RequestContext.authenticate(service, request))
        return MultilingualGlossaryList(glossaries=[_describe_all(one) for one in store.list(owner)])

    @router.get("/v3/glossaries/{glossary_id}", summary="Describe a glossary", **failing)
    async def describe(request: Request, glossary_id: str) -> MultilingualGlossaryInfo:
        return _describe_all(store.find(owner_of(RequestContext.authenticate(service, request)), glossary_id))

    @router.patch(
        "/v3/glossaries/{glossary_id}",
        summary="Rename a glossary or add terms to it",
        **document(ChangeGlossaryRequest, *ERRORS, 422),
    )
    async def change(request: Request, glossary_id: str) -> MultilingualGlossaryInfo:
        body = await read_body(request, ChangeGlossaryRequest, keep_blank=True)
        owner = owner_of(RequestContext.authenticate(service, request))
        before = store.find(owner, glossary_id)
        dictionaries = dict(before.dictionaries)
        for pair, added in _read_dictionaries(body.dictionaries).items():
            merged = merge_glossaries([added, *([dictionaries[pair]] if pair in dictionaries else [])])
            dictionaries[pair] = merged or added
        changed = replace(before, name=body.name or before.name, dictionaries=dictionaries)
        return _describe_all(store.put(owner, changed, limits))

    @router.delete("/v3/glossaries/{glossary_id}", status_code=204, summary="Delete a glossary", **failing)
    async def delete(request: Request, glossary_id: str) -> None:
        store.delete(owner_of(RequestContext.authenticate(service, request)), glossary_id)

    @router.get("/v3/glossaries/{glossary_id}/entries", summary="Return the terms of a dictionary", **failing)
    async def entries(request: Request, glossary_id: str, source_lang: str, target_lang: str) -> DictionaryList:
        languages = DictionaryPair(source_lang=source_lang, target_lang=target_lang)
        found = store.find(owner_of(RequestContext.authenticate(service, request)), glossary_id).find(languages.pair)
        source, target = languages.pair
        terms = DictionaryEntries(source_lang=source, target_lang=target, entries=_write_entries(found))
        return DictionaryList(dictionaries=[terms])

    @router.put(
        "/v3/glossaries/{glossary_id}/dictionaries",
        summary="Replace the terms of a dictionary",
        **document(DictionaryEntries, *ERRORS, 422),
    )
    async def replace_terms(request: Request, glossary_id: str) -> DictionaryInfo:
        body = await read_body(request, DictionaryEntries)
        owner = owner_of(RequestContext.authenticate(service, request))
        before = store.find(owner, glossary_id)
        new = _read_dictionaries([body])
        store.put(owner, replace(before, dictionaries={**before.dictionaries, **new}), limits)
        (source, target), terms = next(iter(new.items()))
        return DictionaryInfo(source_lang=source, target_lang=target, entry_count=len(terms.entries))

    @router.delete(
        "/v3/glossaries/{glossary_id}/dictionaries", status_code=204, summary="Delete a dictionary", **failing
    )
    async def delete_terms(request: Request, glossary_id: str, source_lang: str, target_lang: str) -> None:
        languages = DictionaryPair(source_lang=source_lang, target_lang=target_lang)
        owner = owner_of(RequestContext.authenticate(service, request))
        before = store.find(owner, glossary_id)
        before.find(languages.pair)
        left = {pair: terms for pair, terms in before.dictionaries.items() if pair != languages.pair}
        store.put(owner, replace(before, dictionaries=left), limits)


def _read_dictionaries(dictionaries: list[DictionaryEntries]) -> dict[LanguagePair, Glossary]:
    """Return the terms of each language pair; raise InvalidRequestError for terms that cannot be used."""
    found: dict[LanguagePair, Glossary] = {}
    for dictionary in dictionaries:
        if dictionary.pair in found:
            raise InvalidRequestError(f"two dictionaries from {' to '.join(dictionary.pair)}: give one")
        try:
            found[dictionary.pair] = Glossary(tuple(_read_entries(dictionary)))
        except (ValueError, csv.Error) as error:
            raise InvalidRequestError(f"entries, {error}") from None
        if not found[dictionary.pair].entries:
            raise InvalidRequestError("no entries: give a source term and a target term per line")
    return found


def _read_entries(dictionary: DictionaryEntries) -> list[tuple[str, str]]:
    """Return the terms of a table; in CSV, further columns such as languages are ignored."""
    if dictionary.entries_format == "csv":
        rows = [row[:2] for row in csv.reader(io.StringIO(dictionary.entries)) if any(row)]
    else:
        rows = [line.split("\t") for line in dictionary.entries.splitlines() if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ValueError(f"line {number:,}: write a source term and a target term")
    return [(source.strip(), target.strip()) for source, target in rows]


def _write_entries(glossary: Glossary) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in glossary.entries)


def _require_single(glossary: StoredGlossary) -> StoredGlossary:
    if len(glossary.dictionaries) != 1:
        raise UnknownModelError("the glossary has several language pairs: use /v3/glossaries")
    return glossary


def _describe(glossary: StoredGlossary) -> GlossaryInfo:
    (pair,) = glossary.dictionaries
    return GlossaryInfo(
        glossary_id=glossary.glossary_id,
        name=glossary.name,
        source_lang=pair[0],
        target_lang=pair[1],
        creation_time=_write_time(glossary),
        entry_count=glossary.num_terms,
    )


def _describe_all(glossary: StoredGlossary) -> MultilingualGlossaryInfo:
    return MultilingualGlossaryInfo(
        glossary_id=glossary.glossary_id,
        name=glossary.name,
        creation_time=_write_time(glossary),
        dictionaries=_list_dictionaries(glossary.dictionaries),
    )


def _list_dictionaries(dictionaries: Mapping[LanguagePair, Glossary]) -> list[DictionaryInfo]:
    return [
        DictionaryInfo(source_lang=source, target_lang=target, entry_count=len(terms.entries))
        for (source, target), terms in dictionaries.items()
    ]


def _write_time(glossary: StoredGlossary) -> str:
    return glossary.created_at.isoformat(timespec="milliseconds")
