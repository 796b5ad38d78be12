"""The application as a whole: its documentation, and which other sites' pages may read its answers."""

from typing import Any

import pytest
from house import House

from dragoman.serving.asked import Asked
from dragoman.serving.problem import Failure, Problem

SITE = "https://example.org"


@pytest.fixture
def document(idle: House) -> dict[str, Any]:
    found: dict[str, Any] = idle.ask("GET", "/openapi.json").json()
    assert idle.ask("GET", "/openapi.json").json() == found
    return found


def test_every_route_is_documented_with_its_failures(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.")
    shapes = document["components"]["schemas"]
    for shape in (Problem, Failure):
        assert set(shapes[shape.__name__]["properties"]) == set(shape.model_fields)
    for path, kind, shape in (
        ("/v1/translate", "application/problem+json", "Problem"),
        ("/translate", "application/json", "Failure"),
    ):
        route = document["paths"][path]["post"]
        assert route["summary"]
        assert {"200", "400", "401", "404", "413", "429", "500", "503"} <= set(route["responses"])
        for status, response in route["responses"].items():
            if status != "200":
                assert response["content"] == {kind: {"schema": {"$ref": f"#/components/schemas/{shape}"}}}, status


def test_every_field_is_explained_and_the_examples_can_be_asked(document: dict[str, Any]) -> None:
    asked = document["components"]["schemas"]["Asked"]["properties"]
    assert [name for name, field in asked.items() if "description" not in field and "$ref" not in field] == []
    example = {name: field["examples"][0] for name, field in asked.items() if "examples" in field}
    assert {"texts", "model", "source", "target", "prefix"} <= set(example)
    assert Asked.model_validate(example).texts == example["texts"]


def preflight(house: House, app: Any, origin: str) -> Any:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,authorization",
    }
    return house.ask("OPTIONS", "/v1/translate", app, headers=headers)


def test_a_site_that_is_named_may_ask_and_read(idle: House) -> None:
    app = idle.another(origins=(SITE,))
    allowed = preflight(idle, app, SITE)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == SITE
    assert "access-control-allow-credentials" not in allowed.headers
    answer = idle.ask("GET", "/v1/models", app, headers={"origin": SITE})
    assert answer.headers["access-control-allow-origin"] == SITE
    assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize(
    "origin", ["https://elsewhere.org", "http://example.org", "https://example.org.evil.org", "null"]
)
@pytest.mark.parametrize("origins", [(), (SITE,)])
def test_no_other_site_may(idle: House, origin: str, origins: tuple[str, ...]) -> None:
    app = idle.another(origins=origins)
    assert preflight(idle, app, origin).status_code in (400, 405)
    for answer in (preflight(idle, app, origin), idle.ask("GET", "/v1/models", app, headers={"origin": origin})):
        assert "access-control-allow-origin" not in answer.headers
