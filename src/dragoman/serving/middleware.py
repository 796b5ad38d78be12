"""The middleware of all routes: checks before the body is read, response headers, log lines and error responses."""

import contextlib
import re
import secrets
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.config import describe_first
from dragoman.serving.errors import (
    PROBLEM_JSON,
    ExhaustedQuotaError,
    InvalidRequestError,
    OverloadedError,
    RejectedError,
    UnknownKeyError,
)
from dragoman.serving.request_spans import REQUEST_SPAN, RequestSpan
from dragoman.serving.service import RequestContext, Service, add_log_fields, key_in_headers

SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
HEALTH: Final = "/health"
"""Prefix of the health checks, which are answered even under overload, so that the service is not restarted."""
CLIENT_LEFT: Final = 499
"""The status in log and metrics of a request whose client disconnected, as nginx has it."""
METHOD_NOT_ALLOWED: Final = 405
METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
REQUEST_TIMEOUT: Final = 408
"""The status of a request whose client was too slow and was disconnected."""
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
TRACEPARENT: Final = re.compile(r"00-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})")
"""The header by which W3C Trace Context passes on the id of a trace."""
KEY_IN_HEADER: Final = ("/v1/translate", "/v1/models")
"""Paths whose key is checked before the body is read."""
KEY_IN_BODY: Final = ("/translate", "/detect", "/v2/", "/v3/")
"""Beginnings of paths whose clients may send the key in the body; a key in a header is checked before that."""
DEEPL: Final = ("/v2/", "/v3/")
"""Beginnings of DeepL's paths."""
DEEPL_STATUS: Final[dict[type[Exception], int]] = {UnknownKeyError: 403, ExhaustedQuotaError: 456, OverloadedError: 429}
"""The status of an error on DeepL's routes, where it differs."""
LIBRETRANSLATE: Final = ("/translate", "/detect", "/languages", "/frontend/settings", "/suggest", "/translate_file")
FILE_PATH: Final = "/translate_file"
BUSY: Final = 429
"""The status under overload on LibreTranslate's routes: Weblate and others stop for half an hour after a 503."""
TRANSLATE_PATHS: Final = ("/translate", "/v1/translate", "/v2/translate", "/translate_file")
"""Paths that are rejected under overload before the body is read, so that rejecting takes little time from the admitted
requests."""


class UnreadError(HTTPException):
    """A request that is rejected before its body is read completely; the connection is then closed."""

    title, reason = "Request rejected", "guard"

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, {"connection": "close", **(headers or {})})


class ServiceMiddleware:
    """ASGI middleware that checks requests, adds headers, and logs and counts each response."""

    def __init__(
        self, app: ASGIApp, service: Service, hosts: frozenset[str] | None = None, origins: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._service = service
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope["request_id"] = _request_id(headers)
        extra = SECURITY_HEADERS | {"x-request-id": scope["request_id"]}
        span = self._start_span(scope, headers)
        if span is not None:
            scope["trace"], extra["traceparent"] = span.trace_id, span.traceparent
        elif trace := TRACEPARENT.fullmatch(headers.get("traceparent", "")):
            scope["trace"] = trace["trace"]
            extra["traceparent"] = f"00-{trace['trace']}-{secrets.token_hex(8)}-{trace['flags']}"
        if self._service.is_draining:
            extra["connection"] = "close"
        status = CLIENT_LEFT  # unless a response starts

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in extra.items():
                    headers.setdefault(name, value)
            await send(message)

        with self._service.metrics.open.track_inprogress():
            begin = time.perf_counter()
            try:
                self._check(scope)
                await self._app(scope, self._limit_body(scope, receive), send_with_headers)
            except (RejectedError, HTTPException) as error:  # of the check: the application handles its own
                response = await handle_error(Request(scope), error)
                await response(scope, receive, send_with_headers)
            finally:
                if scope.get("has_left"):  # in the middle of its body: the response reached nobody
                    status = REQUEST_TIMEOUT if scope.get("timed_out") else CLIENT_LEFT
                self._record(scope, status, time.perf_counter() - begin)
                if span is not None:
                    self._end_span(span, scope, status)

    def _start_span(self, scope: Scope, headers: Headers) -> RequestSpan | None:
        """Start the span of a request, if traces are recorded; health checks have none."""
        tracing, path = self._service.tracing, scope["path"]
        span = None if tracing is None or path.startswith(HEALTH) else tracing.start(scope["method"], headers)
        REQUEST_SPAN.set(span)  # the server runs each request in a separate context
        return span

    def _end_span(self, span: RequestSpan, scope: Scope, status: int) -> None:
        method, route = scope["method"], _find_route(scope)
        fields = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        fields |= {"dragoman.request_id": scope["request_id"], "dragoman.refused": scope.get("refused")}
        span.end(f"{method} {route}", status, fields)

    def _check(self, scope: Scope) -> None:
        """Raise UnreadError or OverloadedError for a request that is rejected before its body is read."""
        headers, path = Headers(scope=scope), scope["path"]
        if len(headers.getlist("host")) > 1:
            raise UnreadError(400, "several Host headers: send one")
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            raise UnreadError(421, "unknown Host header: send the request to localhost or 127.0.0.1")
        if self._is_foreign(headers):
            raise UnreadError(403, "the page of another site may not use this service: allow it with --allow-origin")
        if scope.get("crowded") and not path.startswith(HEALTH):
            status = BUSY if path in LIBRETRANSLATE or path.startswith(DEEPL) else 503
            raise UnreadError(status, "too many connections are open: try again later", {"retry-after": "1"})
        with contextlib.suppress(ValueError):  # not a number
            self._check_size(scope, int(headers.get("content-length", "0")))
        is_protected = path in KEY_IN_HEADER or (path.startswith(KEY_IN_BODY) and key_in_headers(headers))
        if is_protected and scope["method"] != "OPTIONS":  # a browser asks without a key whether it may send one
            RequestContext.authenticate(self._service, Request(scope))
        if path in TRANSLATE_PATHS and scope["method"] == "POST":
            self._service.dispatcher.check_capacity()

    def _is_foreign(self, headers: Headers) -> bool:
        """Return True for a request of a page of another site, unless its origin is allowed.

        A browser lets any page send a form. Behind a proxy, Host may be another than the page's: then the browser tells
        by Sec-Fetch-Site, which no page can set, that both are the same.
        """
        origin = headers.get("origin")
        if origin is None or origin in self._origins or headers.get("sec-fetch-site") in ("same-origin", "none"):
            return False
        return origin.partition("://")[2] != headers.get("host")

    def _check_size(self, scope: Scope, size: int) -> None:
        limits = self._service.limits
        limit = limits.file_bytes if scope["path"] == FILE_PATH else limits.body_bytes
        if size > limit:
            raise UnreadError(413, f"the body is larger than {limit:,} bytes: send less text per request")

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` function that raises UnreadError when the body exceeds the size limit.

        It notes in the scope if the client leaves in the middle of the body.
        """
        size, is_complete = 0, False

        async def receive_limited() -> Message:
            nonlocal size, is_complete
            message = await receive()
            if message["type"] == "http.disconnect":
                scope["has_left"] = not is_complete
            is_complete = is_complete or not message.get("more_body")
            size += len(message.get("body", b""))
            self._check_size(scope, size)
            return message

        return receive_limited

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request and write its log line, which contains no text of the request."""
        route = _find_route(scope)
        fields = {"id": scope["request_id"], "trace": scope.get("trace"), "client": (scope.get("client") or [None])[0]}
        fields |= {"method": scope["method"], "route": route, "status": status}
        fields |= {"ms": round(1000 * seconds, 1), "refused": scope.get("refused"), **scope.get("log_fields", {})}
        self._service.metrics.count_request(route, status, seconds, fields)
        if not route.startswith(HEALTH):
            level = "info" if status < 500 else "warning" if status == 503 else "error"
            self._service.log("request", level=level, **fields)


def _find_route(scope: Scope) -> str:
    """Return the path of a request's route; "other" for most requests that reached none."""
    fallback = scope["path"] if scope["path"] in TRANSLATE_PATHS else "other"
    return str(getattr(scope.get("route"), "path", fallback))


def _request_id(headers: Headers) -> str:
    """Return the id that the client or a proxy gave the request, or a new one."""
    given = headers.get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _host_name(header: str) -> str:
    """Return the host of a Host header, without port and without the brackets of an IPv6 address."""
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0].lower()


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of a path; several routes may share it, and the framework names those of the first only."""
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    routes = request.app.routes
    return [name for name, scope in scopes.items() if any(one.matches(scope)[0] is Match.FULL for one in routes)]


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response to an error: problem+json under /v1/, DeepL's or LibreTranslate's format elsewhere."""
    headers: Mapping[str, str] | None = None
    match error:
        case RejectedError() | HTTPException():  # the framework's, of an unknown path or method, has no title
            status, detail, headers = error.status_code, error.detail, error.headers
            title, reason = getattr(error, "title", detail), getattr(error, "reason", None)
        case RequestValidationError():
            status, title, reason = 422, InvalidRequestError.title, "invalid"
            first = error.errors()[0]
            if first["type"] == "json_invalid":
                detail = f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1] + 1}"
            else:
                detail = describe_first([first])
        case ClientDisconnect():  # in the middle of its body: nobody reads this response
            status, title, reason = CLIENT_LEFT, "Client disconnected", None
            detail = "the client disconnected before its request was complete"
        case _:  # in our code: the log gets its place but not its message, which may contain a user's text
            status, title, reason = 500, "Internal error", "broken"
            detail = "internal error: look up the id of this request in the log of the service"
            place = traceback.extract_tb(error.__traceback__)[-1]
            add_log_fields(request, mistake=f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}")
    if status == METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_allowed_methods(request))}
    if isinstance(error, OverloadedError) and request.url.path in LIBRETRANSLATE:
        status = BUSY
    is_deepl = request.url.path.startswith(DEEPL)
    if is_deepl:
        status = DEEPL_STATUS.get(type(error), status)
    request.scope["refused"] = reason
    if request.url.path.startswith("/v1/"):
        request_id = request.scope.get("request_id", "")
        content = {"title": title, "status": status, "detail": detail, "request_id": request_id}
        return JSONResponse(content, status, headers, media_type=PROBLEM_JSON)
    return JSONResponse({"message" if is_deepl else "error": detail}, status, headers)
