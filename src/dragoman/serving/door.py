"""What every route stands on: the service, the keys, and whether whoever asked is still there."""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from dragoman.serving.keys import Keys, Usage
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service

T = TypeVar("T")


@dataclass(frozen=True)
class Door:
    """Given to the routes when the application is made."""

    service: Service
    keys: Keys
    metrics: Metrics

    def whose(self, request: Request, given: str | None = None) -> Usage | None:
        """The user whose key this is, in the head of the request or `given` in its body; UnknownKeyError, if none."""
        usage = self.keys.of(_bearer(request) or request.headers.get("x-api-key") or given)
        if usage is not None:
            tell(request, key=usage.key.name)
        return usage


def tell(request: Request, **fields: Any) -> None:
    """What the log shall say of the request beside the usual."""
    request.scope.setdefault("told", {}).update(fields)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do it, but stop when whoever asked has gone: their sentences leave the queue."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        return await task
    finally:
        task.cancel()  # where it is we who are told to stop
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _bearer(request: Request) -> str | None:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else None
