"""The ASGI application: the translation routes, health checks, metrics, the web page and the OpenAPI document."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from dragoman.api_schemas import ServiceRequest
from dragoman.serving import deepl_glossary_routes, deepl_routes, file_routes, libretranslate_routes, v1_routes
from dragoman.serving.config import Limits
from dragoman.serving.errors import (
    DeepLError,
    ForbiddenError,
    InvalidRequestError,
    LibreTranslateError,
    ProblemDetails,
    RejectedError,
    document_errors,
)
from dragoman.serving.languages import detect_languages
from dragoman.serving.middleware import ServiceMiddleware, handle_error
from dragoman.serving.service import RequestContext, Service
from dragoman.version import __version__

ABOUT: Final = (
    "Translation with your own models. /translate is LibreTranslate's API, /v2/translate DeepL's; /v1/translate "
    "returns scores too."
)
PAGE: Final = {
    "/": ("service.html", "text/html"),
    "/page.css": ("service.css", "text/css"),
    "/page.js": ("service.js", "text/javascript"),
}
"""The files of the web page by path, with their media types."""
KEYLESS: Final = (
    "/health",
    "/health/live",
    "/health/ready",
    "/languages",
    "/frontend/settings",
    "/download_file/{name}",
)
"""Paths that require no API key: load balancers have none, and LibreTranslate's clients send none there."""
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def create_app(service: Service, origins: Sequence[str] = (), hosts: frozenset[str] | None = None) -> ASGIApp:
    """Return the ASGI application of a service.

    `origins` are the allowed CORS origins. `hosts` are the accepted Host headers; None accepts any.
    """

    @cache
    def document() -> bytes:
        return json.dumps(_openapi_document(app, service)).encode()

    @asynccontextmanager
    async def prepare(_: FastAPI) -> AsyncIterator[None]:
        # Both take a part of a second, which no other request should wait for.
        document()
        with suppress(InvalidRequestError):  # language detection is not installed
            detect_languages("")
        yield

    app = FastAPI(title="Dragoman", version=__version__, description=ABOUT, lifespan=prepare, openapi_url=None)
    app.include_router(v1_routes.create_router(service))
    app.include_router(libretranslate_routes.create_router(service))
    app.include_router(file_routes.create_router(service))
    app.include_router(deepl_routes.create_router(service))
    app.include_router(deepl_glossary_routes.create_router(service))
    _add_operation_routes(app, service)
    for path, (name, media_type) in PAGE.items():
        app.get(path, include_in_schema=False)(_serve_file(name, media_type))
    for kind in (RejectedError, HTTPException, RequestValidationError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, handle_error)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
            expose_headers=["x-request-id", "x-model-sha256", "retry-after"],
        )

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        RequestContext.authenticate(service, request)
        return Response(document(), media_type="application/json")

    return ServiceMiddleware(app, service, hosts, origins)


class Health(BaseModel):
    """The state of the service: ok, starting or stopping."""

    status: str = Field(examples=["ok"])


NOT_READY: Final[dict[int | str, Any]] = {503: {"model": Health, "description": "The service is starting or stopping"}}
METRICS: Final = document_errors(401, 403, 429, schema=LibreTranslateError)
METRICS[200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}


def _add_operation_routes(app: FastAPI, service: Service) -> None:
    """Add /health/live, /health/ready, /health and /metrics."""
    tags: dict[str, Any] = {"tags": ["operation"]}

    @app.get("/health/live", summary="Check that the process runs", **tags)
    async def live() -> Health:
        return Health(status="ok")

    @app.get("/health", name="health", response_model=Health, responses=NOT_READY, summary="Check readiness", **tags)
    @app.get("/health/ready", response_model=Health, responses=NOT_READY, summary="Check readiness", **tags)
    async def ready() -> Response:
        if service.is_ready:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "stopping" if service.is_draining else "starting"}, 503)

    @app.get("/metrics", responses=METRICS, response_class=Response, summary="Metrics for Prometheus", **tags)
    async def metrics(request: Request) -> Response:
        usage = RequestContext.authenticate(service, request).usage
        if usage is not None and not usage.key.metrics:
            fix = "create one with dragoman key NAME --keys FILE --metrics"
            raise ForbiddenError(f"the key {usage.key.name} may not read the metrics: {fix}")
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _serve_file(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    content = (files("dragoman") / "studio" / "static" / name).read_bytes()

    async def send() -> Response:
        return Response(content, media_type=media_type)

    return send


def _openapi_document(app: FastAPI, service: Service) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document with the error schemas, the limits and the security schemes added."""
    document = app.openapi()
    schemas = document["components"]["schemas"]
    for schema in (ProblemDetails, LibreTranslateError, DeepLError):
        schemas[schema.__name__] = schema.model_json_schema()
    for path, methods in document["paths"].items():
        for route in methods.values():
            if service.keys.is_required and path not in KEYLESS:
                route["security"] = [{name: []} for name in _SECURITY]
    if service.keys.is_required:
        document["components"]["securitySchemes"] = _SECURITY
    _add_limits(schemas[ServiceRequest.__name__]["properties"], service.limits)
    for content in document["paths"]["/translate"]["post"]["requestBody"]["content"].values():
        _add_limits(content["schema"]["properties"], service.limits)
    return document


def _add_limits(fields: dict[str, Any], limits: Limits) -> None:
    """Add the service's limits to the JSON schemas of request fields.

    JSON Schema cannot express a limit on the total number of characters in several texts.
    """
    maxima = {"num_best": limits.num_best, "beam_size": limits.beam_size, "alternatives": limits.num_best - 1}
    for name, field in fields.items():
        for schema in field.get("anyOf", [field]):
            if name in maxima and schema.get("type") == "integer":
                schema["maximum"] = maxima[name]
            if name in ("texts", "q", "prefix") and schema.get("type") == "string":
                schema["maxLength"] = limits.characters
            if name in ("texts", "q") and schema.get("type") == "array":
                schema["maxItems"] = limits.texts
            if name == "glossary" and schema.get("type") == "object":
                schema["maxProperties"] = limits.glossary_terms
