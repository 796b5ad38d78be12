"""The OpenAPI document of this very service: its limits, and where a key is needed."""

import pytest
from house import House

from dragoman.serving.documented import OPEN
from dragoman.serving.keys import Key, new_key
from dragoman.serving.limits import Limits

KEY, SHA256 = new_key()


def test_it_says_the_limits_of_this_service(idle: House) -> None:
    app = idle.another(limits=Limits(texts=7, characters=1234, num_best=3, beam_size=5))
    document = idle.ask("GET", "/openapi.json", app).json()
    ours = document["components"]["schemas"]["Asked"]["properties"]
    text, texts = sorted(ours["texts"]["anyOf"], key=lambda shape: shape["type"], reverse=True)
    assert (text["maxLength"], texts["maxItems"]) == (1234, 7)
    assert (ours["num_best"]["maximum"], ours["prefix"]["maxLength"]) == (3, 1234)
    assert [shape.get("maximum") for shape in ours["beam_size"]["anyOf"]] == [5, None]
    for content in document["paths"]["/translate"]["post"]["requestBody"]["content"].values():
        assert content["schema"]["properties"]["alternatives"]["maximum"] == 2


@pytest.mark.parametrize("needed", [True, False])
def test_it_says_where_a_key_is_needed(idle: House, needed: bool) -> None:
    app = idle.another([Key(name="a", sha256=SHA256)] if needed else None)
    document = idle.ask("GET", "/openapi.json", app, headers={"x-api-key": KEY}).json()
    asking = {path for path, routes in document["paths"].items() for route in routes.values() if "security" in route}
    assert asking == (set(document["paths"]) - set(OPEN) if needed else set())
    assert ("securitySchemes" in document["components"]) == needed
