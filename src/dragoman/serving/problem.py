"""Errors as they are sent: problem+json (RFC 9457) on our own routes, `{error}` where LibreTranslate's clients ask."""

import math
import traceback
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from dragoman.serving.refusal import RefusalError

OURS: Final = "/v1/"
KIND: Final = "application/problem+json"


class Problem(BaseModel):
    """What went wrong."""

    title: str = Field(description="the kind of problem", examples=["Too much to do"])
    status: int = Field(description="of HTTP", examples=[503])
    detail: str = Field(description="what it was this time, and the mend", examples=["40 sentences wait: come again"])
    request_id: str = Field(description="by which the service's log knows the request", examples=["3f9c2ab0"])


class Failure(BaseModel):
    """What went wrong, in LibreTranslate's words."""

    error: str = Field(examples=["40 sentences wait: come again"])


def responses(*statuses: int, ours: bool) -> dict[int | str, dict[str, Any]]:
    """How a route documents its failures."""
    schema = {"$ref": f"#/components/schemas/{'Problem' if ours else 'Failure'}"}
    kind = KIND if ours else "application/json"
    return {
        status: {"description": _TITLES[status], "content": {kind: {"schema": schema}}, "model": None}
        for status in statuses
    }


_TITLES: Final = {
    400: "The request is mistaken",
    401: "A key is needed",
    404: "No such model",
    413: "Too much for one request",
    415: "The body is of another kind",
    422: "The request is mistaken",
    429: "Too many requests",
    500: "It could not be translated",
    503: "Too much to do",
}


def answer(request: Request, status: int, title: str, detail: str, headers: dict[str, str]) -> Response:
    """A failure in the words of the route."""
    if request.url.path.startswith(OURS):
        identity = request.scope.get("request_id", "")
        content = {"title": title, "status": status, "detail": detail, "request_id": identity}
        return JSONResponse(content, status, headers, media_type=KIND)
    return JSONResponse({"error": detail}, status, headers)


async def refused(request: Request, error: Exception) -> Response:
    """For what we refuse."""
    assert isinstance(error, RefusalError)
    request.scope["refused"] = type(error).__name__.removesuffix("Error").lower()
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return answer(request, error.status, error.title, error.detail, headers)


async def invalid(request: Request, error: Exception) -> Response:
    """For a body that is not what the route takes."""
    assert isinstance(error, RequestValidationError)
    request.scope["refused"] = "invalid"
    detail = _mistake(error.errors()[0])
    return answer(request, 422, "The request is mistaken", detail.encode(errors="replace").decode(), {})


def _mistake(found: dict[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"the body is not JSON: {found['ctx']['error']} at character {found['loc'][-1] + 1}"
    place = ".".join(str(part) for part in found["loc"] if part != "body")
    return f"{place + ': ' if place else ''}{found['msg']}"


async def broken(request: Request, error: Exception) -> Response:
    """For a mistake of our own. The log gets its place, and no word of what it says: that may be a user's text."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
    request.scope["refused"] = "broken"
    request.scope.setdefault("told", {})["mistake"] = where
    detail = "a mistake of the service itself; its log knows the request by its id"
    return answer(request, 500, "It could not be answered", detail, {})


async def other(request: Request, error: Exception) -> Response:
    """For what the framework refuses: an unknown path, another method."""
    assert isinstance(error, HTTPException)
    return answer(request, error.status_code, error.detail, error.detail, dict(error.headers or {}))
