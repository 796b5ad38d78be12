"""Texts in, translations out: which model, what is refused, and what becomes of those who do not wait."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from house import House, facts, until

from dragoman.serving.limits import Limits
from dragoman.serving.refusal import BusyError, MistakenError, TooLargeError, UnknownModelError
from dragoman.serving.service import Service

DOGS, HOUSES = "two red dogs.", "ten old houses."


@pytest.fixture
def service(idle: House) -> Service:
    """Three models, as far as anybody can tell who does not ask them."""
    known = [("one", "en", "de"), ("two", "de", "en"), ("three", "en", "de")]
    idle.crew.facts = {
        name: facts(name=name, source=source, target=target, sha256=name * 20) for name, source, target in known
    }
    return idle.service


@pytest.mark.parametrize(
    ("name", "source", "target", "found"),
    [
        ("three", None, None, "three"),
        ("two", "en", "de", "two"),
        (None, "en", "de", "one"),
        (None, "de", None, "two"),
        (None, None, "en", "two"),
        (None, None, None, "one"),
    ],
)
def test_a_model_is_found_by_its_name_or_by_its_languages(
    service: Service, name: str | None, source: str | None, target: str | None, found: str
) -> None:
    assert service.model(name, source, target).name == found


@pytest.mark.parametrize(
    ("name", "source", "target", "said"),
    [
        ("four", None, None, "no model is called 'four': there is one, two, three"),
        ("../one", None, None, "no model is called '../one': there is"),
        ("", "en", "de", "no model is called '': there is"),
        ("x" * 99, None, None, f"no model is called {'x' * 40!r}: there is"),
        ("\ud800", None, None, r"no model is called '\ud800': there is"),
        (None, "fr", "de", "no model from 'fr' to 'de': there is en to de, de to en, en to de"),
        (None, "fr", None, "no model from 'fr' to anything"),
    ],
)
def test_a_model_that_is_not_there_is_named_with_those_that_are(
    service: Service, name: str | None, source: str | None, target: str | None, said: str
) -> None:
    with pytest.raises(UnknownModelError) as error:
        service.model(name, source, target)
    assert error.value.detail.startswith(said)
    error.value.detail.encode()


def test_of_many_models_a_few_are_listed(idle: House) -> None:
    idle.crew.facts = {f"m{i}": facts(name=f"m{i}") for i in range(50)}
    with pytest.raises(UnknownModelError, match=r"there is m0, .*, m19 and more$"):
        idle.service.model("none")


@pytest.mark.parametrize(
    ("texts", "prefix", "kind", "said"),
    [
        (["a"] * 4, "", TooLargeError, "4 texts: at most 3 in a request"),
        (["a" * 60, "b" * 41], "", TooLargeError, "101 characters: at most 100 in a request"),
        (["a" * 60], "b" * 41, TooLargeError, "101 characters: at most 100 in a request"),
        (["a", "b\udfff", "c"], "", MistakenError, "text 2: half a character at place 1"),
        (["a"], "abc\ud800", MistakenError, "prefix: half a character at place 3"),
    ],
)
def test_too_much_and_what_is_no_text_is_refused(
    idle: House, texts: list[str], prefix: str, kind: type[Exception], said: str
) -> None:
    service = Service(idle.dispatcher, Limits(texts=3, characters=100))
    with pytest.raises(kind, match=said):
        service.refuse_too_much(texts, prefix)


def test_as_much_as_is_allowed_is_not_refused(idle: House) -> None:
    service = Service(idle.dispatcher, Limits(texts=3, characters=100))
    service.refuse_too_much(["a" * 98, "🙂", ""], "b")
    service.refuse_too_much([])
    with pytest.raises(TooLargeError):
        service.refuse_too_much(["a" * 98, "🙂", ""], "bc")


@pytest.mark.slow
def test_a_texts_layout_comes_back_and_every_text_gets_its_own(small: House) -> None:
    text = f"  {DOGS} {HOUSES}\n\n- {HOUSES}\n----\n"
    assert small.translate(text, "", "\n", HOUSES) == [
        "  zwei rote Hunde. zehn alte Häuser.\n\n- zehn alte Häuser.\n----\n",
        "",
        "\n",
        "zehn alte Häuser.",
    ]


@pytest.mark.slow
def test_without_splitting_each_line_is_one_sentence(small: House) -> None:
    (found,) = small.run(small.service.translate([f"{DOGS} {DOGS}\n{HOUSES}"], small.wish(), split=False))
    assert [found.document.sentences, len(found.answers)] == [(f"{DOGS} {DOGS}", HOUSES), 2]


@pytest.mark.slow
def test_others_are_put_together_from_each_sentences_ranking(small: House) -> None:
    (found,) = small.run(small.service.translate([f"{DOGS} {HOUSES}"], small.wish(num_best=2)))
    first, second = ([answer["hypotheses"][place][0] for answer in found.answers] for place in (0, 1))
    assert (found.text, found.other(0)) == (" ".join(first), " ".join(first))
    assert found.other(1) == found.other(9) == " ".join(second)
    assert found.other(1) != found.text


@pytest.mark.slow
def test_a_prefix_is_for_one_text_of_one_sentence(small: House) -> None:
    (text,) = small.translate(DOGS, prefix="vier")
    assert text.startswith("vier")
    for texts in ((DOGS, HOUSES), (f"{DOGS} {HOUSES}",), (), ("",)):
        with pytest.raises(MistakenError, match="give one text of one sentence"):
            small.translate(*texts, prefix="vier")
    with pytest.raises(MistakenError, match="half a character"):
        small.translate(DOGS, prefix="vier\ud800")
    assert small.translate(DOGS) == ["zwei rote Hunde."]


@pytest.mark.slow
def test_one_sentence_that_cannot_be_translated_refuses_its_request_and_no_other(small: House) -> None:
    async def work() -> None:
        mistaken = small.service.translate([DOGS], small.wish(prefix="Haus " * 500))
        good = small.service.translate([HOUSES], small.wish())
        found = await asyncio.gather(mistaken, good, return_exceptions=True)
        assert isinstance(found[0], MistakenError)
        assert found[1][0].text == "zehn alte Häuser."

    small.run(work())


@pytest.fixture
def stuck(small: House) -> Iterator[House]:
    """Its engine does nothing, as long as the test lasts."""
    os.kill(small.pids[0], signal.SIGSTOP)
    yield small
    os.kill(small.pids[0], signal.SIGCONT)
    assert small.translate(DOGS) == ["zwei rote Hunde."]


@pytest.mark.slow
def test_who_gives_up_leaves_the_queue(stuck: House) -> None:
    async def work() -> None:
        first = asyncio.create_task(stuck.service.translate([DOGS], stuck.wish()))
        await until(lambda: stuck.crew.engines[0].batches)
        second = asyncio.create_task(stuck.service.translate([DOGS, HOUSES], stuck.wish()))
        await until(lambda: stuck.dispatcher.waiting.number == 2)
        for task in (first, second):
            task.cancel()
        await asyncio.wait((first, second))
        assert first.cancelled()
        assert second.cancelled()
        assert (stuck.dispatcher.waiting.number, stuck.dispatcher.waiting.cost) == (0, 0)

    stuck.run(work())


@pytest.mark.slow
def test_what_is_not_done_in_time_is_refused_and_leaves_the_queue(stuck: House) -> None:
    hasty = Service(stuck.dispatcher, Limits(seconds=0.2))
    with pytest.raises(BusyError, match=r"not done within 0\.2 seconds"):
        stuck.run(hasty.translate([DOGS], stuck.wish()))
    assert stuck.dispatcher.waiting.number == 0


def test_without_engines_it_refuses_at_once_but_has_nothing_against_empty_texts(service: Service, idle: House) -> None:
    with pytest.raises(BusyError, match="no engine is ready yet"):
        idle.run(service.translate([DOGS], idle.wish()))
    (found,) = idle.run(service.translate(["\n\n"], idle.wish()))
    assert found.text == "\n\n"
