"""The routes /translate_file and /download_file of LibreTranslate's API."""

import asyncio
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.errors import InvalidRequestError, LibreTranslateError, document_errors
from dragoman.serving.libretranslate_routes import FILE_SUFFIXES, choose_languages
from dragoman.serving.markup_translation import MarkupTranslation
from dragoman.serving.request_body import MULTIPART, UploadedFile, parse_content, read_upload
from dragoman.serving.service import RequestContext, Service
from dragoman.serving.streaming import translate_long
from dragoman.translation.file_formats import SUFFIXES
from dragoman.translation.translate_markup import OpenDocument, open_document

_NEEDED: Final = ("file", "source", "target")


class TranslateFileRequest(BaseModel):
    """The fields of a request to /translate_file, beside the file."""

    source: str = Field(description="source language code; auto detects it", examples=["en"])
    target: str = Field(description="target language code", examples=["de"])
    api_key: str | None = Field(None, description="API key, if the service requires keys")


class TranslateFileResponse(BaseModel):
    """The address of the translated file, for some minutes."""

    translatedFileUrl: str  # noqa: N815


def create_router(service: Service) -> APIRouter:
    """Return the router with /translate_file and /download_file."""
    router = APIRouter(tags=["LibreTranslate"])
    turn = asyncio.Semaphore(1)

    @router.post("/translate_file", summary="Translate a file", **_document(400, 401, 404, 413, 429, 500, 503))
    async def translate_file(request: Request) -> TranslateFileResponse:
        fields, file = await read_upload(request)
        body = parse_content(fields, TranslateFileRequest)
        context = RequestContext.authenticate(service, request, body.api_key)
        if file is None or not file.name:
            raise InvalidRequestError("no file: send a multipart form with the file as `file`")
        content = await _translate(context, body, file, turn)
        name = service.stored_files.put(PurePosixPath(file.name.replace("\\", "/")).name, content, service.limits)
        return TranslateFileResponse(translatedFileUrl=str(request.url_for("download_file", name=name)))

    responses = document_errors(404, 429, schema=LibreTranslateError)
    responses[200] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

    @router.get("/download_file/{name}", summary="Download a file", response_class=Response, responses=responses)
    async def download_file(name: str) -> Response:
        file = service.stored_files.find(name)
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
        return Response(file.content, headers=headers, media_type="application/octet-stream")

    return router


async def _translate(
    context: RequestContext, body: TranslateFileRequest, file: UploadedFile, turn: asyncio.Semaphore
) -> bytes:
    """Return the translated content of a file; what takes long is done in a thread, so that others need not wait.

    Only one file is read at a time, in its `turn`.
    """
    service = context.service
    suffix = PurePosixPath(file.name).suffix.lower()
    if suffix not in FILE_SUFFIXES:
        raise InvalidRequestError(f"this file format is not supported: give {', '.join(FILE_SUFFIXES)}")
    try:
        async with turn:
            most = service.limits.file_markup_bytes
            document: OpenDocument = await asyncio.to_thread(open_document, file.content, SUFFIXES[suffix], most)
    except ValueError as error:
        raise InvalidRequestError(f"file, {error}") from None
    texts = ["\n".join(document.page.texts)] if document.page else [document.text]
    chosen = choose_languages(service, body.source, body.target, texts)
    aligns = chosen.model.aligns and document.page is not None and any(document.page.has_tags)
    options = TranslationOptions(chosen.model.name, chosen.model.sha256, chosen.to, alignment=aligns)
    planned = await asyncio.to_thread(
        service.plan, texts, options, source=chosen.source, most_characters=service.limits.file_characters
    )
    (result,) = await translate_long(context, planned, chosen.model.name)
    translated = MarkupTranslation(*result, document.page).text if document.page else result.text
    return await asyncio.to_thread(lambda: document.encode(translated()))


def _document(*statuses: int) -> dict[str, Any]:
    form = TranslateFileRequest.model_json_schema()
    form["properties"]["file"] = {"type": "string", "format": "binary", "description": "the file"}
    form["required"] = list(_NEEDED)
    content = {MULTIPART: {"schema": form}}
    extra = {"requestBody": {"required": True, "content": content}}
    return {"responses": document_errors(*statuses, schema=LibreTranslateError), "openapi_extra": extra}
