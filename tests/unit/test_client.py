"""The client of the HTTP service: against the application itself, and against `dragoman serve` as it is run."""

import asyncio
import dataclasses
import pickle
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman import client as ours
from dragoman.client import AsyncClient, Client, LengthPenalty, Model, Options, ServiceError
from dragoman.serving import asked
from dragoman.serving.app import application
from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.door import Door
from dragoman.serving.engine import Orders
from dragoman.serving.facts import Facts
from dragoman.serving.keys import Key, Keys, new_key
from dragoman.serving.limits import Limits
from dragoman.serving.logs import Log
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service

T = TypeVar("T")
KEY, SHA256 = new_key()
MODEL = Model("en-de", "ab" * 32, "en", "de", "A model", 4, "gnmt", 0.6, aligns=True, compute="float32")
FACTS = Facts.model_validate(dataclasses.asdict(MODEL))


class Clock:
    """That of the keys: time can be let pass."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def app_of(clock: Clock | None = None, requests_per_minute: int | None = None) -> ASGIApp:
    """The application with a model but without engines: what has no sentence is answered, all else is refused."""
    metrics, limits, log = Metrics(), Limits(), Log()
    dispatcher = Dispatcher(Orders({}), 1, limits, log, metrics.seen)
    dispatcher.crew.facts = {FACTS.name: FACTS}
    key = Key(name="someone", sha256=SHA256, requests_per_minute=requests_per_minute)
    return application(Door(Service(dispatcher, limits), Keys([key], clock or time.monotonic), metrics), log)


def asking(app: ASGIApp, ask: Callable[[AsyncClient], Awaitable[T]], key: str | None = KEY, patience: float = 0.0) -> T:
    async def asked() -> T:
        transport = httpx.ASGITransport(app)
        async with AsyncClient("http://service", key, patience=patience, transport=transport) as client:
            return await ask(client)

    return asyncio.run(asked())


def refusal(app: ASGIApp, ask: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        asking(app, ask, **settings)
    return caught.value


def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> ASGIApp:
    """Somebody else's application: what a proxy says that stands before a service."""
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return app


def counted(app: ASGIApp) -> tuple[ASGIApp, list[str]]:
    paths: list[str] = []

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await app(scope, receive, send)

    return counting, paths


def test_the_models_are_those_that_the_service_names() -> None:
    assert asking(app_of(), AsyncClient.models) == (MODEL,)


def test_an_answer_says_which_model_gave_it_and_which_request_it_was() -> None:
    answer = asking(app_of(), lambda client: client.translate(["", "\n"]))
    assert answer.texts == ["", "\n"]
    assert answer.model == ours.Which(MODEL.name, MODEL.sha256)
    assert len(answer.request_id or "") == 16
    with pytest.raises(ValueError, match=r"2 translations: take \.texts"):
        _ = answer.text


@pytest.mark.parametrize(
    ("key", "words"), [(None, "send a key"), ("", "send a key"), ("dgm_other", "this key is not known here")]
)
def test_without_the_right_key_the_refusal_says_so(key: str | None, words: str) -> None:
    error = refusal(app_of(), AsyncClient.models, key=key)
    assert (error.status, error.title, error.retry_after) == (401, "A key is needed", None)
    assert words in error.detail
    assert len(error.request_id or "") == 16
    assert str(error) == f"401 A key is needed: {error.detail} (request {error.request_id})"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"model": "../secret"}, 404, "no model is called '../secret'"),
        ({"source": "fr", "target": "de"}, 404, "no model from 'fr' to 'de'"),
        ({"num_best": 0}, 422, "num_best: "),
        ({"num_best": 3, "beam_size": 2}, 400, "needs a beam_size as large"),
        ({"penalty": LengthPenalty(alpha=11.0)}, 422, "penalty.alpha: "),
        ({"prefix": "Wo", "protect": True}, 400, "a prefix, or protect"),
        ({"prefix": "Wo"}, 400, "a prefix is the beginning of one translation"),
        ({"alignment": True, "protect": True}, 400, "alignment: not together with protect"),
    ],
)
def test_every_option_reaches_the_service(options: Options, status: int, words: str) -> None:
    error = refusal(app_of(), lambda client: client.translate("", **options))
    assert error.status == status
    assert words in error.detail


def test_half_a_character_is_refused_in_the_words_of_the_service() -> None:
    error = refusal(app_of(), lambda client: client.translate(["whole", "half \ud83d"]))
    assert (error.status, error.detail) == (400, "text 2: half a character at place 5")


def test_an_option_that_does_not_exist_is_a_mistake_of_the_program() -> None:
    misspelt: Any = {"beam": 4}
    app, paths = counted(app_of())
    with pytest.raises(TypeError, match="no option is called beam: there is model, source"):
        asking(app, lambda client: client.translate("", **misspelt))
    assert paths == []


def test_an_address_without_its_protocol_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="begins with http://"):
        Client("127.0.0.1:5000")


def test_who_has_too_little_patience_is_told_when_to_come_again() -> None:
    app, paths = counted(app_of())
    error = refusal(app, lambda client: client.translate("Hello."), patience=0.9)
    assert (error.status, error.title, error.retry_after) == (503, "Too much to do", 1.0)
    assert "no engine is ready yet" in error.detail
    assert paths == ["/v1/translate"]


def test_who_has_patience_comes_again_once() -> None:
    app, paths = counted(app_of())
    begin = time.monotonic()
    error = refusal(app, lambda client: client.translate("Hello."), patience=1.0)
    assert time.monotonic() - begin >= 1.0
    assert error.status == 503
    assert paths == ["/v1/translate"] * 2


def test_who_comes_again_is_answered_then() -> None:
    clock = Clock()
    app, paths = counted(app_of(clock, requests_per_minute=1))

    async def twice(client: AsyncClient) -> list[str]:
        first = await client.translate("")
        clock.ahead += 59.2  # so that less than a second is left of the minute
        return [first.text, (await client.translate("\n")).text]

    assert asking(app, twice, patience=1.0) == ["", "\n"]
    assert len(paths) == 3


def test_a_share_that_is_used_up_for_long_is_not_waited_for() -> None:
    app, paths = counted(app_of(requests_per_minute=1))

    async def twice(client: AsyncClient) -> None:
        await client.translate("")
        await client.translate("")

    error = refusal(app, twice, patience=5.0)
    assert (error.status, error.title) == (429, "Too many requests")
    assert 50 < (error.retry_after or 0) <= 60
    assert len(paths) == 2


def test_no_other_refusal_is_tried_again() -> None:
    app, paths = counted(answering(500, b"{}", {"retry-after": "0"}))
    assert refusal(app, AsyncClient.models, patience=5.0).status == 500
    assert len(paths) == 1


def test_a_refusal_that_does_not_say_when_is_not_tried_again() -> None:
    app, paths = counted(answering(503, b"Service Unavailable"))
    error = refusal(app, AsyncClient.models, patience=5.0)
    assert (error.title, error.detail, error.retry_after) == ("Service Unavailable", "Service Unavailable", None)
    assert len(paths) == 1


def test_a_time_of_day_at_which_to_come_again_is_understood() -> None:
    later = {"retry-after": formatdate(time.time() + 100, usegmt=True)}
    assert 50 < (refusal(answering(503, b"", later), AsyncClient.models).retry_after or 0) <= 100
    assert refusal(answering(503, b"", {"retry-after": "soon"}), AsyncClient.models).retry_after is None


def test_what_a_proxy_says_in_its_own_words_is_told() -> None:
    error = refusal(answering(502, b"<h1>Bad Gateway</h1>"), AsyncClient.models)
    assert (error.status, error.title, error.detail) == (502, "Bad Gateway", "<h1>Bad Gateway</h1>")
    assert refusal(answering(404, b'["no"]'), AsyncClient.models).detail == '["no"]'
    assert refusal(answering(403, b'{"error": "go away"}'), AsyncClient.models).detail == "go away"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"models": [{"name": "en-de"}]}', b'{"models": 3}', b"null"])
def test_an_answer_of_somebody_else_is_not_taken_for_one_of_the_service(body: bytes) -> None:
    assert refusal(answering(200, body), AsyncClient.models).title == "Not understood"
    assert refusal(answering(200, body), lambda client: client.translate("")).title == "Not understood"


def test_all_that_an_answer_can_hold_is_told_and_frozen() -> None:
    sentence = asked.Sentence(
        source="A house.",
        text="Ein Haus.",
        score=-0.5,
        log_probability=-1.0,
        confidence=0.75,
        others=[asked.Other(text="Haus.", score=-1.5, log_probability=-2.0)],
        tokens=[asked.Token(piece="</s>", log_probability=-0.25)],
        alignment=[(0, 0), (1, 1)],
    )
    translation = asked.Translation(text="Ein Haus.", sentences=[sentence])
    which = asked.Which(name="en-de", sha256="cd")
    body = asked.Answered(model=which, translations=[translation], detected="en").model_dump_json().encode()
    answer = asking(answering(200, body), lambda client: client.translate("A house."))
    other, token = ours.Other("Haus.", -1.5, -2.0), ours.Token("</s>", -0.25)
    told = ours.Sentence("A house.", "Ein Haus.", -0.5, -1.0, 0.75, (other,), (token,), ((0, 0), (1, 1)))
    assert answer == ours.Answer(ours.Which("en-de", "cd"), (ours.Translation("Ein Haus.", (told,)),), "en")
    assert len({answer, answer}) == 1  # which only what is frozen to its last part can be


def test_an_answer_may_say_more_than_the_client_knows() -> None:
    body = b'{"model": {"name": "a", "sha256": "b", "age": 3}, "translations": [], "detected": null, "mood": "good"}'
    assert asking(answering(200, body), lambda client: client.translate([])).texts == []


def test_a_service_is_ready_or_not() -> None:
    assert asking(answering(200, b'{"status": "ok"}'), AsyncClient.ready)
    app, paths = counted(app_of())
    assert not asking(app, AsyncClient.ready, key=None, patience=5.0)
    assert paths == ["/health/ready"]
    assert not asking(answering(502, b""), AsyncClient.ready)
    assert refusal(answering(404, b"no such page"), AsyncClient.ready).status == 404


def test_where_nobody_listens_nothing_is_ready_and_the_error_has_no_status() -> None:
    with Client("http://127.0.0.1:1", timeout=5.0) as client:
        assert not client.ready()
        with pytest.raises(ServiceError) as caught:
            client.translate("Hello.")
    assert (caught.value.status, caught.value.title) == (None, "The service was not reached")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_an_error_can_be_sent_to_another_process() -> None:
    error = ServiceError(503, "Too much to do", "come again", "3f9c", 2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.args, again.retry_after) == (str(error), error.args, 2.0)


@pytest.mark.parametrize(
    ("kind", "shape", "added"),
    [
        (ours.Model, Facts, set()),
        (ours.Which, asked.Which, set()),
        (ours.Token, asked.Token, set()),
        (ours.Other, asked.Other, set()),
        (ours.Sentence, asked.Sentence, set()),
        (ours.Translation, asked.Translation, set()),
        (ours.LengthPenalty, asked.LengthPenalty, set()),
        (ours.Answer, asked.Answered, {"request_id"}),
    ],
)
def test_the_client_knows_every_field_of_the_service(kind: Any, shape: type[BaseModel], added: set[str]) -> None:
    assert {field.name for field in dataclasses.fields(kind)} == shape.model_fields.keys() | added


def test_the_client_knows_every_option_of_the_service() -> None:
    assert Options.__annotations__.keys() | {"texts"} == asked.Asked.model_fields.keys()


@pytest.mark.slow
def test_it_needs_httpx_and_nothing_of_the_rest() -> None:
    code = "import sys, dragoman.client; print(*sorted(name for name in sys.modules if name.startswith('dragoman')))"
    heavy = "assert not {'torch', 'numpy', 'pydantic', 'ctranslate2'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", f"{code}; {heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dragoman", "dragoman.client", "dragoman.version"]


@pytest.mark.slow
def test_without_httpx_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx'] = None; import dragoman.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: dragoman.client needs more than is installed: pip install 'dragoman[client]' "
        "(httpx is missing)"
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where `dragoman serve` listens, with the demo model."""
    dragoman = Path(sys.executable).with_name("dragoman")
    command = [dragoman, "serve", "--demo", "--engines", "1", "--port", "0", "--limit", "drain_seconds=0"]
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
        assert client.ready()
        answer = client.translate("Where is the station?")
        assert answer.text == "Wo ist der Bahnhof?"
        assert [answer.model] == [ours.Which(model.name, model.sha256) for model in client.models()]
        assert (answer.detected, len(answer.translations[0].sentences)) == (None, 1)
        several = client.translate(("Where is the station?\n\nWhere is the church?", ""), source="en", target="de")
        assert several.texts == ["Wo ist der Bahnhof?\n\nWo ist die Kirche?", ""]


@pytest.mark.slow
def test_all_that_was_asked_for_comes_with_its_type(url: str) -> None:
    with Client(url) as client:
        answer = client.translate(
            "Where is the station?",
            model="demo",
            num_best=2,
            beam_size=3,
            penalty=LengthPenalty("length", 1.0),
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
def test_the_one_that_awaits_gives_what_the_one_that_waits_gives(url: str) -> None:
    sentences = ["Where is the station?", "The house is old.", "Good morning."]

    async def awaited() -> list[str]:
        async with AsyncClient(url) as client:
            assert await client.ready()
            return [answer.text for answer in await asyncio.gather(*map(client.translate, sentences))]

    with Client(url) as client:
        assert asyncio.run(awaited()) == client.translate(sentences).texts


@pytest.mark.slow
def test_a_refusal_is_the_same_error_for_the_one_that_waits(url: str) -> None:
    with Client(url) as client, pytest.raises(ServiceError) as caught:
        client.translate("Where is the station?", target="fr")
    assert (caught.value.status, caught.value.title) == (404, "No such model")


@pytest.mark.slow
def test_who_gives_too_little_time_is_told_that_none_was_left(url: str) -> None:
    with Client(url, timeout=0.001) as client, pytest.raises(ServiceError) as caught:
        client.translate(" ".join(["Where is the station?"] * 100))
    assert (caught.value.status, caught.value.title) == (None, "No answer in time")
