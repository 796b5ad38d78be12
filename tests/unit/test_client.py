"""The client of the HTTP service: against the application itself, and against `dragoman serve` as it is run."""

import asyncio
import pickle
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.api_schemas import (
    LengthPenalty,
    ModelInfo,
    ModelRef,
    RankedTranslation,
    ScoredToken,
    ServiceRequest,
    TranslatedSentence,
    TranslatedText,
)
from dragoman.client import AsyncClient, Client, RequestOptions, ServiceError, TranslationResponse
from dragoman.serving.app import create_app
from dragoman.serving.config import ServiceConfig
from dragoman.serving.keys import ApiKey, KeyRing, generate_key
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service

T = TypeVar("T")
KEY, SHA256 = generate_key()
MODEL = ModelInfo(
    name="en-de",
    sha256="ab" * 32,
    source="en",
    target="de",
    title="A model",
    beam_size=4,
    formula="gnmt",
    alpha=0.6,
    aligns=True,
    compute="float32",
)
MODEL_REF = ModelRef(name=MODEL.name, sha256=MODEL.sha256)


class Clock:
    """That of the keys: time can be let pass."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def create_service_app(clock: Clock | None = None, requests_per_minute: int | None = None) -> ASGIApp:
    """Return an application with a model but without engines: texts without a sentence are answered, others get 503."""
    key = ApiKey(name="someone", sha256=SHA256, requests_per_minute=requests_per_minute)
    service = Service.create(ServiceConfig({}), JsonLog())
    service.keys = KeyRing([key], clock or time.monotonic)
    service.dispatcher.pool.models = {MODEL.name: MODEL}
    return create_app(service)


def call(
    app: ASGIApp, request: Callable[[AsyncClient], Awaitable[T]], key: str | None = KEY, patience: float = 0.0
) -> T:
    async def run() -> T:
        transport = httpx.ASGITransport(app)
        async with AsyncClient("http://service", key, patience=patience, transport=transport) as client:
            return await request(client)

    return asyncio.run(run())


def refusal(app: ASGIApp, request: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        call(app, request, **settings)
    return caught.value


def fixed_app(status: int, body: bytes, headers: dict[str, str] | None = None) -> ASGIApp:
    """Somebody else's application: what a proxy says that stands before a service."""
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return app


def count_requests(app: ASGIApp) -> tuple[ASGIApp, list[str]]:
    paths: list[str] = []

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await app(scope, receive, send)

    return counting, paths


def test_the_models_are_those_that_the_service_names() -> None:
    assert call(create_service_app(), AsyncClient.models) == (MODEL,)


def test_an_answer_says_which_model_gave_it_and_which_request_it_was() -> None:
    answer = call(create_service_app(), lambda client: client.translate(["", "\n"]))
    assert answer.texts == ["", "\n"]
    assert answer.model == MODEL_REF
    assert len(answer.request_id or "") == 16
    with pytest.raises(ValueError, match="2 translations"):
        _ = answer.text


@pytest.mark.parametrize(("key", "words"), [(None, "no API key"), ("", "no API key"), ("dgm_other", "unknown API key")])
def test_without_the_right_key_the_refusal_says_so(key: str | None, words: str) -> None:
    error = refusal(create_service_app(), AsyncClient.models, key=key)
    assert (error.status, error.title, error.retry_after) == (401, "API key required", None)
    assert words in error.detail
    assert len(error.request_id or "") == 16
    assert str(error) == f"401 API key required: {error.detail} (request {error.request_id})"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"model": "../secret"}, 404, "unknown model '../secret'"),
        ({"source": "fr", "target": "de"}, 404, "no model from 'fr' to 'de'"),
        ({"num_best": 0}, 422, "num_best: "),
        ({"num_best": 3, "beam_size": 2}, 400, "num_best 3 exceeds beam_size 2"),
        ({"penalty": LengthPenalty(alpha=10.0), "num_best": 0}, 422, "num_best: "),
        ({"glossary": "it"}, 400, "unknown glossary 'it'"),
        ({"glossary": {"station": ""}}, 400, "glossary, term 1: "),
        ({"prefix": "Wo"}, 400, "prefix needs a single sentence"),
        ({"prefix": "Wo", "protect": False}, 400, "prefix needs a single sentence"),
    ],
)
def test_every_option_reaches_the_service(options: RequestOptions, status: int, words: str) -> None:
    error = refusal(create_service_app(), lambda client: client.translate("", **options))
    assert error.status == status
    assert words in error.detail


def test_half_a_character_is_refused_in_the_words_of_the_service() -> None:
    error = refusal(create_service_app(), lambda client: client.translate(["whole", "half \ud83d"]))
    assert (error.status, error.detail) == (400, "text 2: lone surrogate at index 5: remove it")


def test_an_unknown_option_is_a_type_error() -> None:
    misspelt: Any = {"beam": 4}
    app, paths = count_requests(create_service_app())
    with pytest.raises(TypeError, match="unknown option beam: choose from model, source"):
        call(app, lambda client: client.translate("", **misspelt))
    assert paths == []


def test_an_address_without_its_protocol_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="begins with http://"):
        Client("127.0.0.1:5000")


def test_without_patience_the_error_has_retry_after() -> None:
    app, paths = count_requests(create_service_app())
    error = refusal(app, lambda client: client.translate("Hello."), patience=0.9)
    assert (error.status, error.title, error.retry_after) == (503, "Service overloaded", 1.0)
    assert "no engine is ready yet" in error.detail
    assert paths == ["/v1/translate"]


def test_with_patience_a_request_is_sent_once_more() -> None:
    app, paths = count_requests(create_service_app())
    begin = time.monotonic()
    error = refusal(app, lambda client: client.translate("Hello."), patience=1.0)
    assert time.monotonic() - begin >= 1.0
    assert error.status == 503
    assert paths == ["/v1/translate"] * 2


def test_the_second_attempt_is_answered() -> None:
    clock = Clock()
    app, paths = count_requests(create_service_app(clock, requests_per_minute=1))

    async def twice(client: AsyncClient) -> list[str]:
        first = await client.translate("")
        clock.ahead += 59.2  # so that less than a second is left of the minute
        return [first.text, (await client.translate("\n")).text]

    assert call(app, twice, patience=1.0) == ["", "\n"]
    assert len(paths) == 3


def test_a_share_that_is_used_up_for_long_is_not_waited_for() -> None:
    app, paths = count_requests(create_service_app(requests_per_minute=1))

    async def twice(client: AsyncClient) -> None:
        await client.translate("")
        await client.translate("")

    error = refusal(app, twice, patience=5.0)
    assert (error.status, error.title) == (429, "Too many requests")
    assert 50 < (error.retry_after or 0) <= 60
    assert len(paths) == 2


def test_no_other_refusal_is_tried_again() -> None:
    app, paths = count_requests(fixed_app(500, b"{}", {"retry-after": "0"}))
    assert refusal(app, AsyncClient.models, patience=5.0).status == 500
    assert len(paths) == 1


def test_a_refusal_that_does_not_say_when_is_not_tried_again() -> None:
    app, paths = count_requests(fixed_app(503, b"Service Unavailable"))
    error = refusal(app, AsyncClient.models, patience=5.0)
    assert (error.title, error.detail, error.retry_after) == ("Service Unavailable", "Service Unavailable", None)
    assert len(paths) == 1


def test_a_time_that_is_no_number_is_not_waited_for() -> None:
    assert refusal(fixed_app(503, b"", {"retry-after": "soon"}), AsyncClient.models, patience=5.0).retry_after is None


def test_the_response_of_a_proxy_is_reported() -> None:
    error = refusal(fixed_app(502, b"<h1>Bad Gateway</h1>"), AsyncClient.models)
    assert (error.status, error.title, error.detail) == (502, "Bad Gateway", "<h1>Bad Gateway</h1>")
    assert refusal(fixed_app(404, b'["no"]'), AsyncClient.models).detail == '["no"]'
    assert refusal(fixed_app(403, b'{"error": "go away"}'), AsyncClient.models).detail == "go away"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"models": [{"name": "en-de"}]}', b'{"models": 3}', b"null"])
def test_a_response_of_another_service_is_rejected(body: bytes) -> None:
    assert refusal(fixed_app(200, body), AsyncClient.models).title == "Unexpected response"
    assert refusal(fixed_app(200, body), lambda client: client.translate("")).title == "Unexpected response"


def test_all_fields_of_a_response_arrive_and_are_frozen() -> None:
    sentence = TranslatedSentence(
        source="A house.",
        text="Ein Haus.",
        score=-0.5,
        log_probability=-1.0,
        confidence=0.75,
        others=(RankedTranslation(text="Haus.", score=-1.5, log_probability=-2.0),),
        tokens=(ScoredToken(piece="</s>", log_probability=-0.25),),
        alignment=((0, 0), (1, 1)),
    )
    translation = TranslatedText(text="Ein Haus.", sentences=(sentence,))
    response = TranslationResponse(model=MODEL_REF, translations=(translation,), detected="en")
    body = response.model_dump_json(exclude={"request_id"}).encode()
    assert call(fixed_app(200, body), lambda client: client.translate("A house.")) == response
    assert len({response, response}) == 1  # hashable, as only frozen values are


def test_unknown_fields_of_a_response_are_ignored() -> None:
    body = b'{"model": {"name": "a", "sha256": "b", "age": 3}, "translations": [], "detected": null, "mood": "good"}'
    assert call(fixed_app(200, body), lambda client: client.translate([])).texts == []


def test_without_a_service_the_error_has_no_status() -> None:
    with Client("http://127.0.0.1:1", timeout=5.0) as client, pytest.raises(ServiceError) as caught:
        client.translate("Hello.")
    assert (caught.value.status, caught.value.title) == (None, "Connection failed")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_an_error_can_be_sent_to_another_process() -> None:
    error = ServiceError(503, "Service overloaded", "try again", "3f9c", 2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.args, again.retry_after) == (str(error), error.args, 2.0)


def test_the_client_knows_every_option_of_the_service() -> None:
    assert RequestOptions.__annotations__.keys() | {"texts", "stream"} == ServiceRequest.model_fields.keys()


@pytest.mark.slow
def test_it_needs_only_httpx_and_the_schemas() -> None:
    code = "import sys, dragoman.client; print(*sorted(name for name in sys.modules if name.startswith('dragoman')))"
    heavy = "assert not {'torch', 'numpy', 'ctranslate2', 'fastapi'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", f"{code}; {heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dragoman", "dragoman.api_schemas", "dragoman.client", "dragoman.version"]


@pytest.mark.slow
def test_without_httpx_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx'] = None; import dragoman.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = "ModuleNotFoundError: dragoman.client requires httpx: pip install 'dragoman[client]'"
    assert done.stderr.splitlines()[-1] == message


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where `dragoman serve` listens, with the demo model."""
    dragoman = Path(sys.executable).with_name("dragoman")
    command = [dragoman, "serve", "demo", "--engines", "1", "--port", "0", "--limit", "drain_seconds=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        assert service.stdout is not None
        try:
            yield service.stdout.readline().strip()
            service.terminate()
            assert service.wait(60) == 0
        finally:
            service.kill()


@pytest.mark.slow
def test_a_text_and_texts_are_translated(url: str) -> None:
    with Client(url, f"{KEY}\n") as client:  # as it is read from a file; a header cannot hold the end of a line
        answer = client.translate("Where is the station?")
        assert answer.text == "Wo ist der Bahnhof?"
        assert [answer.model] == [ModelRef(name=model.name, sha256=model.sha256) for model in client.models()]
        assert (answer.detected, len(answer.translations[0].sentences)) == (None, 1)
        several = client.translate(("Where is the station?\n\nWhere is the church?", ""), source="en", target="de")
        assert several.texts == ["Wo ist der Bahnhof?\n\nWo ist die Kirche?", ""]


@pytest.mark.slow
def test_every_requested_field_arrives_with_its_type(url: str) -> None:
    with Client(url) as client:
        answer = client.translate(
            "Where is the station?",
            model="demo",
            num_best=2,
            beam_size=3,
            penalty=LengthPenalty(formula="length", alpha=1.0),
            tokens=True,
        )
    (sentence,) = answer.translations[0].sentences
    assert (sentence.source, sentence.text) == ("Where is the station?", "Wo ist der Bahnhof?")
    assert 0 < (sentence.confidence or 0) <= 1
    (other,) = sentence.others
    assert other.score <= sentence.score
    tokens = sentence.tokens or ()
    assert tokens[-1].piece == "</s>"
    assert sum(token.log_probability for token in tokens) == pytest.approx(sentence.log_probability, abs=1e-3)
    assert sentence.alignment is None


@pytest.mark.slow
def test_the_language_is_found_out_and_a_beginning_kept(url: str) -> None:
    with Client(url) as client:
        assert client.translate("Where is the station?", source="auto").detected == "en"
        assert client.translate("Where is the station?", prefix="Wo befindet").text.startswith("Wo befindet")


@pytest.mark.slow
def test_both_clients_give_the_same(url: str) -> None:
    sentences = ["Where is the station?", "The harness is old.", "Good morning."]

    async def awaited() -> list[str]:
        async with AsyncClient(url) as client:
            return [answer.text for answer in await asyncio.gather(*map(client.translate, sentences))]

    with Client(url) as client:
        assert asyncio.run(awaited()) == client.translate(sentences).texts


@pytest.mark.slow
def test_a_refusal_is_the_same_error_for_the_one_that_waits(url: str) -> None:
    with Client(url) as client, pytest.raises(ServiceError) as caught:
        client.translate("Where is the station?", target="fr")
    assert (caught.value.status, caught.value.title) == (404, "Unknown model")


@pytest.mark.slow
def test_a_timeout_is_reported_as_such(url: str) -> None:
    with Client(url, timeout=0.001) as client, pytest.raises(ServiceError) as caught:
        client.translate(" ".join(["Where is the station?"] * 100))
    assert (caught.value.status, caught.value.title) == (None, "Timeout")
