"""Rejected requests as they are sent: problem+json on the service's own routes, {error} on LibreTranslate's."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from service_harness import send_request
from starlette.exceptions import HTTPException

from dragoman.serving import errors
from dragoman.serving.errors import LibreTranslateError, ProblemDetails, RejectedError, document_errors
from dragoman.serving.middleware import handle_error

STATUSES = {
    errors.InvalidRequestError: (400, "mistaken"),
    errors.UnknownKeyError: (401, "unknownkey"),
    errors.ForbiddenError: (403, "forbidden"),
    errors.UnknownModelError: (404, "unknownmodel"),
    errors.TooLargeError: (413, "toolarge"),
    errors.QuotaError: (429, "limited"),
    errors.TranslationFailedError: (500, "broken"),
    errors.OverloadedError: (503, "busy"),
}


def respond(error: Exception, path: str) -> httpx.Response:
    """Return the response of a route that raises an error."""
    app = FastAPI()

    async def fail(number: int = 0) -> None:
        raise error

    for route in ("/v1/translate", "/translate", "/v2/translate"):
        app.post(route)(fail)
    for kind in (RejectedError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle_error)
    return asyncio.run(send_request(app, "POST", path))


def test_every_error_keeps_its_status_and_its_reason_in_log_and_metrics() -> None:
    assert {kind: (kind.status_code, kind.reason) for kind in RejectedError.__subclasses__()} == STATUSES


@pytest.mark.parametrize("kind", STATUSES)
def test_own_routes_send_problem_json(kind: type[RejectedError]) -> None:
    response = respond(kind("the detail"), "/v1/translate")
    assert response.status_code == kind.status_code
    assert response.headers["content-type"] == "application/problem+json"
    problem = ProblemDetails.model_validate(response.json())
    assert (problem.status, problem.detail, problem.title) == (kind.status_code, "the detail", kind.title)


@pytest.mark.parametrize("kind", STATUSES)
def test_other_routes_send_an_error_string(kind: type[RejectedError]) -> None:
    response = respond(kind("the detail"), "/translate")
    assert response.status_code == (429 if kind is errors.OverloadedError else kind.status_code)
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"error": "the detail"}


@pytest.mark.parametrize(
    ("seconds", "header"), [(None, None), (0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2"), (60.0, "60")]
)
def test_retry_after_is_in_whole_seconds(seconds: float | None, header: str | None) -> None:
    for path in ("/v1/translate", "/translate"):
        assert respond(errors.OverloadedError("later", seconds), path).headers.get("retry-after") == header


def test_only_a_missing_key_gets_an_authenticate_header() -> None:
    assert respond(errors.UnknownKeyError("no"), "/translate").headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in respond(errors.QuotaError("no"), "/translate").headers


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/nothing", 404, "Not Found"),
        ("/v1/translate?number=x", 422, "query.number: Input should be a valid integer"),
    ],
)
def test_errors_of_the_framework_have_the_same_shape(path: str, status: int, detail: str) -> None:
    response = respond(AssertionError("not reached"), path)
    assert response.status_code == status
    assert ProblemDetails.model_validate(response.json()).detail.startswith(detail)
    elsewhere = respond(AssertionError("not reached"), path.removeprefix("/v1"))
    assert elsewhere.status_code == status
    assert elsewhere.json()["error"].startswith(detail)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UnknownKeyError("no"), 403),
        (errors.QuotaError("no"), 429),
        (errors.ExhaustedQuotaError("no"), 456),
        (errors.OverloadedError("no"), 429),
        (errors.TooLargeError("no"), 413),
    ],
)
def test_errors_on_the_routes_of_deepl_have_its_status_and_shape(error: errors.RejectedError, status: int) -> None:
    response = respond(error, "/v2/translate")
    assert (response.status_code, response.json()) == (status, {"message": "no"})


def test_headers_of_a_framework_error_are_kept() -> None:
    response = respond(HTTPException(413, "too much", {"connection": "close"}), "/translate")
    assert (response.status_code, response.headers["connection"]) == (413, "close")


def test_half_a_character_in_an_invalid_field_does_not_break_the_response() -> None:
    error = RequestValidationError([{"loc": ("body", "x\ud800"), "msg": "no", "type": "t"}])
    response = respond(error, "/v1/translate")
    assert (response.status_code, response.json()["detail"]) == (422, "x?: no")


def test_errors_are_documented_with_their_schemas() -> None:
    own, other = document_errors(429)[429], document_errors(429, schema=LibreTranslateError)[429]
    assert own["content"] == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    assert other["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/LibreTranslateError"}}}
