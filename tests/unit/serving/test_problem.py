"""What goes wrong, as it is sent: problem+json on our own routes, {error} on LibreTranslate's."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from house import asked
from starlette.exceptions import HTTPException

from dragoman.serving import refusal
from dragoman.serving.problem import Problem, invalid, other, refused, responses
from dragoman.serving.refusal import RefusalError

KINDS = {
    refusal.MistakenError: 400,
    refusal.UnknownKeyError: 401,
    refusal.UnknownModelError: 404,
    refusal.TooLargeError: 413,
    refusal.LimitedError: 429,
    refusal.BrokenError: 500,
    refusal.BusyError: 503,
}


def told(error: Exception, path: str) -> httpx.Response:
    """What a route's failure becomes."""
    app = FastAPI()

    async def fails(number: int = 0) -> None:
        raise error

    for route in ("/v1/translate", "/translate"):
        app.post(route)(fails)
    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)
    return asyncio.run(asked(app, "POST", path))


def kinds(root: type[RefusalError]) -> Iterator[type[RefusalError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_kind_of_refusal_is_tried_here() -> None:
    assert set(kinds(RefusalError)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_on_our_routes_it_is_problem_json(kind: type[RefusalError]) -> None:
    answer = told(kind("why it is"), "/v1/translate")
    assert answer.status_code == KINDS[kind]
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate(answer.json())
    assert (problem.status, problem.detail, problem.title) == (KINDS[kind], "why it is", kind.title)


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_others_it_is_an_error(kind: type[RefusalError]) -> None:
    answer = told(kind("why it is"), "/translate")
    assert answer.status_code == KINDS[kind]
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": "why it is"}


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, None), (0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2"), (60.0, "60")]
)
def test_when_to_come_again_is_said_in_whole_seconds(seconds: float | None, said: str | None) -> None:
    for path in ("/v1/translate", "/translate"):
        assert told(refusal.BusyError("later", seconds), path).headers.get("retry-after") == said


def test_only_who_lacks_a_key_is_told_how_to_bring_one() -> None:
    assert told(refusal.UnknownKeyError("no"), "/translate").headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in told(refusal.LimitedError("no"), "/translate").headers


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/nothing", 404, "Not Found"),
        ("/v1/translate?number=x", 422, "query.number: Input should be a valid integer"),
    ],
)
def test_what_the_framework_refuses_has_the_same_shape(path: str, status: int, detail: str) -> None:
    answer = told(AssertionError("not reached"), path)
    assert answer.status_code == status
    assert Problem.model_validate(answer.json()).detail.startswith(detail)
    elsewhere = told(AssertionError("not reached"), path.removeprefix("/v1"))
    assert elsewhere.status_code == status
    assert elsewhere.json()["error"].startswith(detail)


def test_headers_of_the_frameworks_refusal_are_kept() -> None:
    answer = told(HTTPException(413, "too much", {"connection": "close"}), "/translate")
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_half_character_in_what_was_wrong_does_not_make_it_worse() -> None:
    error = RequestValidationError([{"loc": ("body", "x\ud800"), "msg": "no", "type": "t"}])
    answer = told(error, "/v1/translate")
    assert (answer.status_code, answer.json()["detail"]) == (422, "x?: no")


def test_failures_are_documented_with_their_shapes() -> None:
    ours, theirs = responses(429, ours=True)[429], responses(429, ours=False)[429]
    assert ours["content"] == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert theirs["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
