"""The translation service: choice of the model, checks of texts, translation, timeouts and cancellation."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from service_harness import GOLDEN, ServiceHarness, model_info, until

from dragoman.bundle import open_bundle
from dragoman.serving.config import Limits
from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.errors import InvalidRequestError, OverloadedError, TooLargeError, UnknownModelError
from dragoman.serving.model_worker import LoadedModel, ModelWorker
from dragoman.serving.service import Service

DOGS, HOUSES = "two red dogs.", "ten old houses."


@pytest.fixture
def service(idle: ServiceHarness) -> Service:
    """Return a service that lists three models but has no engine."""
    known = [("one", "en", "de"), ("two", "de", "en"), ("three", "en", "de")]
    idle.pool.models = {
        name: model_info(name=name, source=source, target=target, sha256=name * 20) for name, source, target in known
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
    assert service.find_model(name, source, target).name == found


@pytest.mark.parametrize(
    ("name", "source", "target", "message"),
    [
        ("four", None, None, "unknown model 'four': give one, two, three"),
        ("../one", None, None, "unknown model '../one': give"),
        ("", "en", "de", "unknown model '': give"),
        ("x" * 99, None, None, f"unknown model {'x' * 40!r}: give"),
        ("\ud800", None, None, r"unknown model '\ud800': give"),
        (None, "fr", "de", "no model from 'fr' to 'de': give en to de, de to en, en to de"),
        (None, "fr", None, "no model from 'fr' to anything"),
    ],
)
def test_an_unknown_model_is_rejected_with_a_list_of_the_known(
    service: Service, name: str | None, source: str | None, target: str | None, message: str
) -> None:
    with pytest.raises(UnknownModelError) as error:
        service.find_model(name, source, target)
    assert error.value.detail.startswith(message)
    error.value.detail.encode()


def test_of_many_models_a_few_are_listed(idle: ServiceHarness) -> None:
    idle.pool.models = {f"m{i}": model_info(name=f"m{i}") for i in range(50)}
    with pytest.raises(UnknownModelError, match=r"give m0, .*, m19 or another$"):
        idle.service.find_model("none")


@pytest.mark.parametrize(
    ("texts", "prefix", "kind", "message"),
    [
        (["a"] * 4, "", TooLargeError, "4 texts are too many: send at most 3 per request"),
        (["a" * 60, "b" * 41], "", TooLargeError, "101 characters are too many: send at most 100 per request"),
        (["a" * 60], "b" * 41, TooLargeError, "101 characters are too many: send at most 100 per request"),
        (["a", "b\udfff", "c"], "", InvalidRequestError, "text 2: lone surrogate at index 1"),
        (["a"], "abc\ud800", InvalidRequestError, "prefix: lone surrogate at index 3"),
    ],
)
def test_texts_above_the_limits_or_not_unicode_are_rejected(
    idle: ServiceHarness, texts: list[str], prefix: str, kind: type[Exception], message: str
) -> None:
    service = replace(idle.service, limits=Limits(texts=3, characters=100))
    with pytest.raises(kind, match=message):
        service.check_texts(texts, prefix)


def test_texts_within_the_limits_are_accepted(idle: ServiceHarness) -> None:
    service = replace(idle.service, limits=Limits(texts=3, characters=100))
    service.check_texts(["a" * 98, "🙂", ""], "b")
    service.check_texts([])
    with pytest.raises(TooLargeError):
        service.check_texts(["a" * 98, "🙂", ""], "bc")


@pytest.mark.slow
def test_a_texts_layout_comes_back_and_every_text_gets_its_own(small: ServiceHarness) -> None:
    text = f"  {DOGS} {HOUSES}\n\n- {HOUSES}\n----\n"
    assert small.translate(text, "", "\n", HOUSES) == [
        "  zwei rote Hunde. zehn alte Häuser.\n\n- zehn alte Häuser.\n----\n",
        "",
        "\n",
        "zehn alte Häuser.",
    ]


@pytest.mark.slow
def test_without_splitting_each_line_is_one_sentence(small: ServiceHarness) -> None:
    (found,) = small.run(small.service.translate([f"{DOGS} {DOGS}\n{HOUSES}"], small.options(), split=False))
    assert [found.document.sentences, len(found.answers)] == [(f"{DOGS} {DOGS}", HOUSES), 2]


@pytest.mark.slow
def test_alternatives_are_joined_from_each_sentences_ranking(small: ServiceHarness) -> None:
    (found,) = small.run(small.service.translate([f"{DOGS} {HOUSES}"], small.options(num_best=2)))
    first, second = ([answer["hypotheses"][place]["text"] for answer in found.answers] for place in (0, 1))
    assert (found.text(), found.text(0)) == (" ".join(first), " ".join(first))
    assert found.text(1) == found.text(9) == " ".join(second)
    assert found.text(1) != found.text()


@pytest.mark.slow
def test_a_prefix_is_for_one_text_of_one_sentence(small: ServiceHarness) -> None:
    (text,) = small.translate(DOGS, prefix="vier")
    assert text.startswith("vier")
    for texts in ((DOGS, HOUSES), (f"{DOGS} {HOUSES}",), (), ("",)):
        with pytest.raises(InvalidRequestError, match="send one text of one sentence"):
            small.translate(*texts, prefix="vier")
    with pytest.raises(InvalidRequestError, match="lone surrogate"):
        small.translate(DOGS, prefix="vier\ud800")
    assert small.translate(DOGS) == ["zwei rote Hunde."]


@pytest.mark.slow
def test_one_sentence_that_cannot_be_translated_refuses_its_request_and_no_other(small: ServiceHarness) -> None:
    async def work() -> None:
        mistaken = small.service.translate([DOGS], small.options(prefix="Haus " * 500))
        good = small.service.translate([HOUSES], small.options())
        found = await asyncio.gather(mistaken, good, return_exceptions=True)
        assert isinstance(found[0], InvalidRequestError)
        assert found[1][0].text() == "zehn alte Häuser."

    small.run(work())


@pytest.fixture
def stuck(small: ServiceHarness) -> Iterator[ServiceHarness]:
    """Its engine does nothing, as long as the test lasts."""
    os.kill(small.pids[0], signal.SIGSTOP)
    yield small
    os.kill(small.pids[0], signal.SIGCONT)
    assert small.translate(DOGS) == ["zwei rote Hunde."]


@pytest.mark.slow
def test_sentences_of_a_cancelled_request_leave_the_queue(stuck: ServiceHarness) -> None:
    async def work() -> None:
        first = asyncio.create_task(stuck.service.translate([DOGS], stuck.options()))
        await until(lambda: stuck.pool.engines[0].batches)
        second = asyncio.create_task(stuck.service.translate([DOGS, HOUSES], stuck.options()))
        await until(lambda: stuck.dispatcher.queue.length == 2)
        for task in (first, second):
            task.cancel()
        await asyncio.wait((first, second))
        assert first.cancelled()
        assert second.cancelled()
        assert (stuck.dispatcher.queue.length, stuck.dispatcher.queue.cost) == (0, 0)

    stuck.run(work())


@pytest.mark.slow
def test_a_request_that_times_out_is_rejected_and_leaves_the_queue(stuck: ServiceHarness) -> None:
    hasty = replace(stuck.service, limits=Limits(seconds=0.2))
    with pytest.raises(OverloadedError, match=r"timeout after 0\.2 seconds"):
        stuck.run(hasty.translate([DOGS], stuck.options()))
    assert stuck.dispatcher.queue.length == 0


def test_without_engines_only_empty_texts_are_answered(service: Service, idle: ServiceHarness) -> None:
    with pytest.raises(OverloadedError, match="no engine is ready yet"):
        idle.run(service.translate([DOGS], idle.options()))
    (found,) = idle.run(service.translate(["\n\n"], idle.options()))
    assert found.text() == "\n\n"


def test_a_sentence_with_too_many_tokens_is_refused_and_a_text_of_many_sentences_is_not(
    small: ServiceHarness,
) -> None:
    service = replace(small.service, limits=small.limits.model_copy(update={"sentence_tokens": 20}))
    options = small.options()
    with pytest.raises(TooLargeError, match="tokens"):
        small.run(service.translate([" ".join([DOGS] * 3)], options, split=False))
    (found,) = small.run(service.translate(["\n".join([DOGS, HOUSES] * 3)], options))
    assert found.text().splitlines() == ["zwei rote Hunde.", "zehn alte Häuser."] * 3


def test_admission_counts_the_tokens_of_the_models_vocabulary(
    small: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[int] = []
    monkeypatch.setattr(small.dispatcher, "admit", costs.append)
    small.translate(DOGS, HOUSES)
    assert costs == [len(open_bundle(GOLDEN).vocab.source.encode([DOGS, HOUSES]).ids)]


def test_endless_text_is_answered_without_an_engine_as_an_engine_would(
    small: ServiceHarness, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless, options = "ab" * 500, small.options(tokens=True, alignment=True)
    with monkeypatch.context() as patched:
        patched.delattr(Dispatcher, "put")
        (found,) = small.run(small.service.translate([endless], options))
    assert found.text() == endless
    assert found.answers == ModelWorker(LoadedModel.read("tiny", tiny)).translate([endless], options)


def test_kept_and_translated_sentences_of_a_text_come_in_order(small: ServiceHarness) -> None:
    endless = "ab" * 500
    (found,) = small.run(small.service.translate([f"{DOGS}\n{endless}\n{HOUSES}"], small.options()))
    assert found.text().splitlines() == ["zwei rote Hunde.", endless, "zehn alte Häuser."]
    assert [answer["kept"] for answer in found.answers] == [None, "repetition", None]
