"""Request errors: exceptions with an HTTP status, JSON schemas, and entries in the OpenAPI document."""

import math
from typing import Any, ClassVar, Final

from pydantic import BaseModel, Field

PROBLEM_JSON: Final = "application/problem+json"


class RejectedError(Exception):
    """A rejected request, with an HTTP status; `detail` says what is wrong and what to do."""

    status_code: ClassVar[int]
    title: ClassVar[str]
    reason: ClassVar[str]
    """The value of `refused` in the log and of `reason` in the metrics."""

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        """Seconds after which the client may send the request again."""
        self.headers = {"WWW-Authenticate": "Bearer"} if self.status_code == 401 else {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))

    @staticmethod
    def reasons() -> set[str]:
        """Return the reasons of all kinds of rejected requests."""
        kinds, reasons = [RejectedError], set()
        while kinds:
            kind = kinds.pop()
            reasons |= {kind.reason} if "reason" in vars(kind) else set()
            kinds += kind.__subclasses__()
        return reasons


class InvalidRequestError(RejectedError):
    """A request with unknown, invalid or conflicting options."""

    status_code, title, reason = 400, "Invalid request", "mistaken"


class UnknownKeyError(RejectedError):
    """A request without an API key, or with an unknown API key."""

    status_code, title, reason = 401, "API key required", "unknownkey"


class ForbiddenError(RejectedError):
    """A request for a route that the API key may not use."""

    status_code, title, reason = 403, "Not allowed", "forbidden"


class UnknownModelError(RejectedError):
    """A request for a model or language that is not served."""

    status_code, title, reason = 404, "Unknown model", "unknownmodel"


class TooLargeError(RejectedError):
    """A request with too many texts or characters."""

    status_code, title, reason = 413, "Request too large", "toolarge"


class QuotaError(RejectedError):
    """A request that exceeds the quota of its API key."""

    status_code, title, reason = 429, "Too many requests", "limited"


class ExhaustedQuotaError(QuotaError):
    """A request that exceeds a quota which a short wait does not fill again."""


class TranslationFailedError(RejectedError):
    """An internal error of an engine while it translated a sentence."""

    status_code, title, reason = 500, "Translation failed", "broken"


class OverloadedError(RejectedError):
    """A request that would wait too long, or that arrives while no engine is ready."""

    status_code, title, reason = 503, "Service overloaded", "busy"


class ProblemDetails(BaseModel):
    """The error response of the routes under /v1 (RFC 9457)."""

    title: str = Field(description="kind of error", examples=["Service overloaded"])
    status: int = Field(description="HTTP status", examples=[503])
    detail: str = Field(description="the error and its solution", examples=["40 sentences are queued: try again later"])
    request_id: str = Field(description="id of the request in the service's log", examples=["3f9c2ab0"])


class LibreTranslateError(BaseModel):
    """The error response of LibreTranslate's routes."""

    error: str = Field(examples=["40 sentences are queued: try again later"])


class DeepLError(BaseModel):
    """The error response of DeepL's routes."""

    message: str = Field(examples=["40 sentences are queued: try again later"])


_TITLES: Final = {422: InvalidRequestError.title, 456: "Quota exceeded"} | {
    kind.status_code: kind.title for kind in RejectedError.__subclasses__()
}


def document_errors(*statuses: int, schema: type[BaseModel] = ProblemDetails) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` argument of a FastAPI route that can fail with the given HTTP statuses."""
    media_type = PROBLEM_JSON if schema is ProblemDetails else "application/json"
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema.__name__}"}}}
    return {status: {"description": _TITLES[status], "content": content, "model": None} for status in statuses}
