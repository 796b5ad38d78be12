"""All routes, and the guard around them, as one application."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from dragoman.serving import libre, operations, page, v1
from dragoman.serving.documented import documented
from dragoman.serving.door import Door
from dragoman.serving.guard import Guard
from dragoman.serving.logs import Log
from dragoman.serving.problem import broken, invalid, other, refused
from dragoman.serving.refusal import RefusalError
from dragoman.version import __version__

ABOUT = "Translations by models of your own. /translate is LibreTranslate's; /v1/translate tells more."

Life = Callable[[], AbstractAsyncContextManager[None]]


def application(
    door: Door, log: Log, origins: Sequence[str] = (), hosts: frozenset[str] | None = None, life: Life | None = None
) -> ASGIApp:
    """For uvicorn. `origins` are whose pages may read answers; `hosts`, under which names the service may be asked."""

    @cache
    def document() -> bytes:
        return json.dumps(documented(app, door)).encode()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        document()  # takes 50 ms, which nobody should have to wait for who asks for something else
        if life is None:
            yield
            return
        async with life():
            yield

    app = FastAPI(title="Dragoman", version=__version__, description=ABOUT, lifespan=lifespan, openapi_url=None)
    for router in (v1.router(door), libre.router(door), operations.router(door), page.router()):
        app.include_router(router)
    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)
    app.add_exception_handler(Exception, broken)
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
        door.whose(request)
        return Response(document(), media_type="application/json")

    return Guard(app, door.service, door.service.limits, log, door.metrics, hosts)
