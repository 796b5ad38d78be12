"""Routes for those who run the service: is it alive, is it ready, how is it doing."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from dragoman.serving.door import Door
from dragoman.serving.problem import responses


class Health(BaseModel):
    """ok, or why not."""

    status: str = Field(examples=["ok"])


NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"model": Health, "description": "No engine is ready, or the service was told to stop"}
}
FIGURES = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **responses(401, ours=False)}


def router(door: Door) -> APIRouter:
    """/health, /health/live, /health/ready and /metrics."""
    made = APIRouter(tags=["operation"])

    @made.get("/health/live", response_model=Health, summary="Is the process there at all")
    async def live() -> Health:
        return Health(status="ok")

    @made.get("/health/ready", response_model=Health, responses=NOT_READY, summary="Shall it be sent requests")
    async def ready() -> Response:
        if door.service.ready:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "stopping" if door.service.draining else "starting"}, 503)

    @made.get("/health", response_model=Health, responses=NOT_READY, summary="The same, under LibreTranslate's name")
    async def health() -> Response:
        return await ready()

    @made.get("/metrics", responses=FIGURES, response_class=Response, summary="For Prometheus")
    async def metrics(request: Request) -> Response:
        door.whose(request)
        return Response(door.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return made
