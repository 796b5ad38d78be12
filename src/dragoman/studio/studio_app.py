"""The studio's ASGI application: the page, its files and the API, for programs on the same machine that know the token.

Every request needs a Host of this machine, and no Origin but the studio's own: a page of another site can neither read
from the studio nor make it compute. The API needs the token that `dragoman studio` prints; the files of the page hold
no secrets and need none.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from safetensors.numpy import save as to_safetensors
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api_schemas import ModelList, ServiceResponse
from dragoman.config import describe_first
from dragoman.inspection.cell import CellExplanation
from dragoman.inspection.evolution import EvolutionInfo
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.trace import TraceHeader
from dragoman.io.progress import Progress
from dragoman.serving.middleware import SECURITY_HEADERS
from dragoman.studio.job_stream import stream_job
from dragoman.studio.lab_and_course import CourseInfo, LabInfo, load_course, load_lab
from dragoman.studio.run_watch import UnknownSnapshotError, WatchedRun
from dragoman.studio.schemas import (
    CounterfactualCounts,
    ErrorInfo,
    HeadList,
    HeadSearchReport,
    HeadSearchRequest,
    JobProgress,
    LinkList,
    LinksRequest,
    LogPage,
    RunState,
    StoreHeadRequest,
    StudioInfo,
    StudioModelInfo,
    TraceRequest,
    TriageRequest,
)
from dragoman.studio.tracing import StudioModel, TraceCache, UnknownTraceError, has_torch
from dragoman.triage.ranking import TriageReport
from dragoman.version import __version__

FILES: Final = {
    "/": ("index.html", "text/html"),
    "/studio.js": ("studio.js", "text/javascript"),
    "/parts.js": ("parts.js", "text/javascript"),
    "/parts.css": ("parts.css", "text/css"),
    "/studio.css": ("studio.css", "text/css"),
}
"""The files of the page by path, with their media types."""
TRACE_TYPE: Final = "application/vnd.safetensors"
TRACE_ID: Final = "x-trace-id"
PREFIX_TEXT: Final = "x-prefix-text"
"""Percent-encoded text for `inspect --prefix`; missing if no text is tokenized to the prefix of the request."""
_TRUSTED_TYPES: Final = "; require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
HEADERS: Final = SECURITY_HEADERS | {
    "content-security-policy": SECURITY_HEADERS["content-security-policy"] + _TRUSTED_TYPES
}
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {status: {"model": ErrorInfo} for status in (401, 403, 404, 421, 422)}
_BINARY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {TRACE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}


def create_app(
    models: Mapping[str, StudioModel],
    token: str,
    hosts: frozenset[str],
    runs: Mapping[str, WatchedRun] | None = None,
    is_closing: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Return the application; `hosts` are the accepted Host headers, each with its port.

    Responses that go on for as long as the studio runs end when `is_closing` returns True.
    """
    app = _create_routes(models, TraceCache(), runs or {})
    _add_run_routes(app, runs or {}, is_closing)
    _add_job_routes(app, models, is_closing)
    _add_align_routes(app, models)
    _add_reading_routes(app)
    return StudioMiddleware(app, token, hosts)


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the API, with all else that pages read: trace files, and the service's answers."""
    app = _create_routes({}, TraceCache(), {})
    _add_run_routes(app, {}, lambda: True)
    _add_job_routes(app, {}, lambda: True)
    _add_align_routes(app, {})
    _add_reading_routes(app)
    document = app.openapi()
    for kind in (
        TraceHeader,
        ModelList,
        ServiceResponse,
        LogPage,
        RunState,
        JobProgress,
        TriageReport,
        HeadSearchReport,
    ):
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        document["components"]["schemas"] |= {**schema.pop("$defs", {}), kind.__name__: schema}
    document["info"]["version"] = ""  # a new version alone does not change the generated types
    return document


def _create_routes(models: Mapping[str, StudioModel], traces: TraceCache, runs: Mapping[str, WatchedRun]) -> FastAPI:
    app = FastAPI(title="Dragoman studio", version=__version__, openapi_url=None)
    for path, (name, media_type) in FILES.items():
        app.get(path, include_in_schema=False)(_send_file(name, media_type))
    for kind in (HTTPException, RequestValidationError, ValueError):
        app.add_exception_handler(kind, _handle_error)

    @app.get("/api/studio", responses=_ERRORS)
    def studio() -> StudioInfo:
        return StudioInfo(
            version=__version__,
            has_torch=has_torch(),
            models=tuple(model.info for model in models.values()),
            runs=tuple(run.info for run in runs.values()),
        )

    @app.post("/api/traces", responses=_ERRORS | _BINARY, response_class=Response)
    def trace(request: TraceRequest) -> Response:
        model = _find_model(models, request.model)
        trace_id, found = traces.trace(model, request)
        headers = {TRACE_ID: trace_id}
        text = model.prefix_text(request.prefix) if request.prefix else ""
        if text is not None:
            headers[PREFIX_TEXT] = quote(text)
        return Response(found.to_bytes(), media_type=TRACE_TYPE, headers=headers)

    @app.get("/api/traces/{trace_id}/heads", responses=_ERRORS)
    def heads(trace_id: str) -> HeadList:
        return HeadList(heads=tuple(summarise_heads([traces.find(trace_id).trace])))

    @app.get("/api/traces/{trace_id}/counterfactual", responses=_ERRORS)
    def counterfactual(trace_id: str) -> CounterfactualCounts:
        kept = traces.find(trace_id)
        return kept.model.counterfactual(kept.trace)

    @app.get("/api/traces/{trace_id}/vectors", responses=_ERRORS | _BINARY, response_class=Response)
    def vectors(trace_id: str, name: str, head: int) -> Response:
        kept = traces.find(trace_id)
        of_all = vars(kept.model.vectors(kept.trace, name))
        if not 0 <= head < len(of_all["query"]):
            raise ValueError(f"there is no head {head}: choose 0 to {len(of_all['query']) - 1}")
        arrays = {part: np.ascontiguousarray(array[head], np.float32) for part, array in of_all.items()}
        return Response(to_safetensors(arrays), media_type=TRACE_TYPE)

    @app.get("/api/traces/{trace_id}/explanation", responses=_ERRORS)
    def explanation(
        trace_id: str, name: str, row: int, head: int | None = None, key: int | None = None
    ) -> CellExplanation:
        kept = traces.find(trace_id)
        return kept.model.explain(kept.trace, name, row, head, key)

    return app


def _add_run_routes(app: FastAPI, runs: Mapping[str, WatchedRun], is_closing: Callable[[], bool]) -> None:
    def find(name: str) -> WatchedRun:
        if name not in runs:
            raise HTTPException(404, f"there is no run {name!r}: choose from {', '.join(runs)}")
        return runs[name]

    @app.get("/api/runs/{name}/events", responses=_ERRORS, response_class=StreamingResponse)
    async def events(name: str) -> StreamingResponse:
        return StreamingResponse(find(name).messages(is_closing), media_type="text/event-stream")

    @app.get("/api/runs/{name}/evolution", responses=_ERRORS)
    def evolution(name: str) -> EvolutionInfo:
        return find(name).evolution()

    @app.get("/api/runs/{name}/traces/{snapshot}/{sentence}", responses=_ERRORS | _BINARY, response_class=Response)
    def probe_trace(name: str, snapshot: str, sentence: int) -> Response:
        return Response(find(name).trace(snapshot, sentence), media_type=TRACE_TYPE)


def _add_job_routes(app: FastAPI, models: Mapping[str, StudioModel], is_closing: Callable[[], bool]) -> None:
    def stream(work: Callable[[Progress], BaseModel]) -> StreamingResponse:
        return StreamingResponse(stream_job(work, is_closing), media_type="text/event-stream")

    @app.post("/api/triage", responses=_ERRORS, response_class=StreamingResponse)
    async def triage(request: TriageRequest) -> StreamingResponse:
        return stream(partial(_find_model(models, request.model).triage, request.sources))

    @app.post("/api/head-search", responses=_ERRORS, response_class=StreamingResponse)
    async def head_search(request: HeadSearchRequest) -> StreamingResponse:
        return stream(partial(_find_model(models, request.model).search_heads, request))


def _add_align_routes(app: FastAPI, models: Mapping[str, StudioModel]) -> None:
    @app.post("/api/links", responses=_ERRORS)
    def links(request: LinksRequest) -> LinkList:
        return _find_model(models, request.model).links(request.head, request.sources, request.targets)

    @app.post("/api/alignment-head", responses=_ERRORS)
    def store_head(request: StoreHeadRequest) -> StudioModelInfo:
        return _find_model(models, request.model).store_head(request.head)


def _add_reading_routes(app: FastAPI) -> None:
    @app.get("/api/lab", responses=_ERRORS)
    def lab() -> LabInfo:
        return load_lab()

    @app.get("/api/course", responses=_ERRORS)
    def course() -> CourseInfo:
        return load_course()


def _find_model(models: Mapping[str, StudioModel], name: str) -> StudioModel:
    if name not in models:
        raise ValueError(f"there is no model {name!r}: choose from {', '.join(models)}")
    return models[name]


def _send_file(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    content = (files("dragoman.studio") / "static" / name).read_bytes()

    async def send() -> Response:
        return Response(content, media_type=media_type)

    return send


async def _handle_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    match error:
        case HTTPException():
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        case RequestValidationError():
            return JSONResponse({"error": describe_first(error.errors())}, 422)
        case UnknownTraceError() | UnknownSnapshotError():
            return JSONResponse({"error": str(error)}, 404)
        case _:
            return JSONResponse({"error": str(error)}, 422)


class StudioMiddleware:
    """ASGI middleware that checks Host, Origin and token before anything else, and adds the security headers."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        rejected = self._reject(Headers(scope=scope), scope["path"])
        await (self._app if rejected is None else rejected)(scope, receive, send_with_headers)

    def _reject(self, headers: Headers, path: str) -> Response | None:
        """Return the response to a request that is rejected, or None."""
        if headers.get("host", "").lower() not in self._hosts:
            return JSONResponse({"error": "unknown Host header: open the address that dragoman studio printed"}, 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self._hosts}:
            return JSONResponse({"error": "a page of another site may not use the studio"}, 403)
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if path.startswith("/api/") and not hmac.compare_digest(given.encode(), self._token.encode()):
            return JSONResponse({"error": "the token is missing: open the address that dragoman studio printed"}, 401)
        return None
