"""What surrounds every request: its id, its size, its host, its time, and the headers of its answer."""

import secrets
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.limits import Limits
from dragoman.serving.logs import Log
from dragoman.serving.metrics import Metrics
from dragoman.serving.problem import answer, refused
from dragoman.serving.refusal import BusyError
from dragoman.serving.service import Service

SECURITY: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
WATCHED: Final = "/health"
"""Whoever watches the service must hear that it lives when it has too much to do, or it would be ended for that."""
WORK: Final = ("/translate", "/v1/translate")
"""Where whoever comes at a bad time is sent away at the door, before the request is read: when far more is asked than
can be done, refusing must cost next to nothing, or it takes the time of those who were let in."""
CROWDED: Final = "too many connections are open: come again"


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        limits: Limits,
        log: Log,
        metrics: Metrics,
        hosts: frozenset[str] | None,
    ) -> None:
        self._app = app
        self._service = service
        self._limits = limits
        self._log = log
        self._metrics = metrics
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["request_id"] = secrets.token_hex(8)
        seen = _Seen(scope, {"connection": "close"} if self._service.draining else {}, send)
        with self._metrics.open.track_inprogress():
            begin = time.perf_counter()
            try:
                await self._answered(scope, receive, seen)
            finally:
                self._tell(scope, seen.status, time.perf_counter() - begin)

    async def _answered(self, scope: Scope, receive: Receive, send: "_Seen") -> None:
        headers = Headers(scope=scope)
        if self._hosts is not None and _host(headers.get("host", "")) not in self._hosts:
            await self._refuse(scope, receive, send, 421, "this service answers under its own name only")
            return
        if scope.get("crowded") and not scope["path"].startswith(WATCHED):
            await self._refuse(scope, receive, send, 503, CROWDED, retry_after=1)
            return
        try:
            size = int(headers.get("content-length", "0"))
        except ValueError:
            size = 0
        if size > self._limits.body_bytes:
            await self._refuse(scope, receive, send, 413, self._most())
            return
        if scope["path"] in WORK and scope["method"] == "POST":
            try:
                self._service.dispatcher.knock()
            except BusyError as busy:
                await (await refused(Request(scope), busy))(scope, receive, send)
                return
        await self._app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        """The body, as long as it stays within the limit, whatever its head has said."""
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limits.body_bytes:
                raise HTTPException(413, self._most(), {"connection": "close"})
            return message

        return limited

    def _most(self) -> str:
        return f"a body of at most {self._limits.body_bytes:,} bytes is taken"

    async def _refuse(
        self, scope: Scope, receive: Receive, send: "_Seen", status: int, detail: str, retry_after: int | None = None
    ) -> None:
        """The connection is closed: nobody here reads the rest."""
        scope["refused"] = "guard"
        headers = {"connection": "close"} | ({} if retry_after is None else {"retry-after": str(retry_after)})
        await answer(Request(scope), status, "Refused", detail, headers)(scope, receive, send)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        known = scope["path"] if scope["path"] in WORK else "other"  # sent away before it came to a route
        route = str(getattr(scope.get("route"), "path", known))
        if status == 0:
            status = 499  # whoever asked has gone
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if reason := scope.get("refused"):
            self._metrics.refusals.labels(reason).inc()
        if route.startswith(WATCHED):
            return
        self._log(
            "request",
            id=scope["request_id"],
            method=scope["method"],
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            refused=reason,
            **scope.get("told", {}),
        )


class _Seen:
    """Sends on, with our headers, and remembers the status."""

    def __init__(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        self.status = 0
        self._headers = SECURITY | headers | {"x-request-id": scope["request_id"]}
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        await self._send(message)


def _host(given: str) -> str:
    """Without the port; an address of IPv6 has brackets around it."""
    return given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0].lower()
