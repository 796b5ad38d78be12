"""The OpenAPI document: what FastAPI knows of the routes, made exact with what only the service knows."""

from typing import Any, Final

from fastapi import FastAPI

from dragoman.serving.door import Door
from dragoman.serving.limits import Limits
from dragoman.serving.problem import Failure, Problem

OPEN: Final = ("/health", "/health/live", "/health/ready")
"""Whoever balances load has no key."""
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def documented(app: FastAPI, door: Door) -> dict[str, Any]:
    """With the shapes of our errors, this service's limits, and where a key is needed; once for an application."""
    schema = app.openapi()
    shapes = schema["components"]["schemas"]
    for shape in (Problem, Failure):
        shapes[shape.__name__] = shape.model_json_schema()
    for path, routes in schema["paths"].items():
        for route in routes.values():
            found = route.get("responses", {}).get("422", {}).get("content", {})
            found.pop("application/json", None)  # FastAPI's own shape, which our handler replaces
            if door.keys.needed and path not in OPEN:
                route["security"] = [{name: []} for name in _SECURITY]
    if door.keys.needed:
        schema["components"]["securitySchemes"] = _SECURITY
    _say_limits(shapes["Asked"]["properties"], door.service.limits)
    for kind in schema["paths"]["/translate"]["post"]["requestBody"]["content"].values():
        _say_limits(kind["schema"]["properties"], door.service.limits)
    return schema


def _say_limits(fields: dict[str, Any], limits: Limits) -> None:
    """What is refused for its size, as far as a schema can say it: the characters of all texts together it cannot."""
    most = {"num_best": limits.num_best, "beam_size": limits.beam_size, "alternatives": limits.num_best - 1}
    for name, field in fields.items():
        for shape in field.get("anyOf", [field]):
            if name in most and shape.get("type") == "integer":
                shape["maximum"] = most[name]
            if name in ("texts", "q", "prefix") and shape.get("type") == "string":
                shape["maxLength"] = limits.characters
            if name in ("texts", "q") and shape.get("type") == "array":
                shape["maxItems"] = limits.texts
