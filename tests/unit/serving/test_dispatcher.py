"""The distribution of sentences over engines, and the admission of requests, with fake engines and a fake clock."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_harness import (
    OPTIONS,
    TOY_SHA256,
    FakeEngine,
    ServiceHarness,
    model_info,
    queue_sentence,
    run_with_fake_clock,
)

from dragoman.serving.config import Limits, ServiceConfig
from dragoman.serving.dispatcher import Dispatcher
from dragoman.serving.engine_pool import QueuedSentence, SentenceBatch
from dragoman.serving.engine_protocol import MAX_BATCHES, TranslationOptions
from dragoman.serving.errors import InvalidRequestError, OverloadedError, TranslationFailedError

OTHER = "1" * 64


class Bench:
    """A dispatcher with engines that answer, or die, when the test lets them."""

    def __init__(self, num_engines: int = 1, **limits: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.seen: list[tuple[int, int]] = []
        config = ServiceConfig({}, engines=num_engines, limits=Limits.model_validate(limits))
        self.dispatcher = Dispatcher(config, lambda *_, **__: None, self._see)
        self.pool = self.dispatcher.pool
        self.pool.models = {"toy": model_info()}
        self.pool.engines += [FakeEngine() for _ in range(num_engines)]
        self.callbacks = self.pool.callbacks

    def _see(self, batch: SentenceBatch, num_tokens: int) -> None:
        self.seen.append((len(batch.sentences), num_tokens))

    @property
    def engines(self) -> list[FakeEngine]:
        return [engine for engine in self.pool.engines if isinstance(engine, FakeEngine)]

    def put(self, *texts: str, options: TranslationOptions = OPTIONS, cost: int = 0) -> list[QueuedSentence]:
        sentences = [queue_sentence(text, self.loop.time(), self.loop, options, cost) for text in texts]
        self.dispatcher.put(sentences)
        return sentences

    def answer(self, engine: FakeEngine, seconds: float = 0.1) -> None:
        """Answer its first batch, each sentence in capitals."""
        batch = engine.batches.pop(min(engine.batches))
        answers = [{"hypotheses": [{"text": one.text.upper()}], "num_tokens": 2} for one in batch.sentences]
        self.callbacks.on_answers(batch, answers, seconds)

    def lose(self, engine: FakeEngine, another: FakeEngine | None = None, is_cancelled: bool = False) -> None:
        """Lose an engine as the pool does, or kill it to free it; another may replace it."""
        lost = [one for batch in engine.batches.values() for one in batch.sentences]
        self.pool.engines.remove(engine)
        self.callbacks.on_lost(lost, is_cancelled)
        if another is not None:
            self.pool.engines.append(another)
            self.pool.models = another.models
            self.callbacks.on_change()


def text_of(one: QueuedSentence) -> str:
    return str(one.answer.result()["hypotheses"][0]["text"])


def on_a_bench(num_engines: int = 1, **limits: Any) -> Callable[[Callable[[Bench], Any]], Callable[[], None]]:
    """Run a test with a new bench, in a loop whose clock jumps."""

    def made(test: Callable[[Bench], Any]) -> Callable[[], None]:
        def run() -> None:
            async def work() -> None:
                await test(Bench(num_engines, **limits))

            run_with_fake_clock(work)

        run.__name__ = test.__name__
        return run

    return made


@on_a_bench(merge_ms=3)
async def test_sentences_of_several_requests_share_a_batch_after_a_moment(bench: Bench) -> None:
    start = bench.loop.time()
    bench.put("one", "two")
    await asyncio.sleep(0.001)
    bench.put("three")
    (engine,) = bench.engines
    assert engine.texts == []
    while not engine.texts:
        await asyncio.sleep(0.0001)
    assert engine.texts == [["one", "two", "three"]]
    assert bench.loop.time() - start == pytest.approx(0.003, abs=2e-4)


@on_a_bench(merge_ms=3)
async def test_slow_batches_wait_a_twentieth_of_their_time_for_more_sentences(bench: Bench) -> None:
    (engine,) = bench.engines
    bench.put("one", cost=10)
    await asyncio.sleep(0.01)
    bench.answer(engine, seconds=2.0)
    start = bench.loop.time()
    bench.put("two", cost=10)
    await asyncio.sleep(0.05)
    bench.put("three", cost=1)
    assert engine.texts == []
    while not engine.texts:
        await asyncio.sleep(0.001)
    assert engine.texts == [["two", "three"]]
    assert 0.1 <= bench.loop.time() - start < 0.11  # the third makes it a little longer


@on_a_bench(num_engines=2, merge_ms=0)
async def test_an_engine_leaves_a_fair_share_to_one_that_is_nearly_done(bench: Bench) -> None:
    first, second = bench.engines
    bench.put("a", cost=10)
    bench.put("b", cost=10)
    assert (first.texts, second.texts) == ([["a"]], [["b"]])
    bench.put(*"cdefghi", cost=10)
    bench.answer(first)
    assert first.texts == [list("cdef")]  # of 80 tokens, half
    bench.answer(second)
    assert second.texts == [list("ghi")]


@on_a_bench(merge_ms=0)
async def test_without_merging_a_sentence_goes_at_once(bench: Bench) -> None:
    bench.put("one")
    bench.put("two")
    assert bench.engines[0].texts == [["one"]]
    bench.answer(bench.engines[0], seconds=2.0)
    assert bench.engines[0].texts == [["two"]]


@on_a_bench(merge_ms=3, batch_tokens=20)
async def test_a_full_batch_does_not_wait_and_keeps_its_limit(bench: Bench) -> None:
    bench.put("one", "two", "three", "four", cost=7)
    assert bench.engines[0].texts == [["one", "two"]]


@on_a_bench(merge_ms=0, batch_tokens=20)
async def test_an_engine_at_work_takes_one_batch_more_and_only_a_full_one(bench: Bench) -> None:
    (engine,) = bench.engines
    bench.put("one", cost=7)
    bench.put("two", cost=7)
    assert engine.texts == [["one"]]
    bench.put("three", "four", cost=7)
    assert engine.texts == [["one"], ["two", "three"]]
    bench.put("five", "six", "seven", cost=7)
    assert len(engine.batches) == MAX_BATCHES
    bench.answer(engine)
    assert engine.texts == [["two", "three"], ["four", "five"]]


@on_a_bench(num_engines=3, merge_ms=0)
async def test_idle_engines_share_what_there_is(bench: Bench) -> None:
    bench.put(*"abcdef", cost=10)
    assert sorted(engine.texts[0] for engine in bench.engines) == [["a", "b"], ["c", "d"], ["e", "f"]]


@on_a_bench(merge_ms=0)
async def test_different_options_do_not_share_a_batch_and_the_oldest_is_first(bench: Bench) -> None:
    (engine,) = bench.engines
    bench.put("first")
    for text, options in (("a", OPTIONS._replace(beam_size=1)), ("b", OPTIONS), ("c", OPTIONS._replace(beam_size=1))):
        await asyncio.sleep(0.01)
        bench.put(text, options=options)
    order = []
    while engine.batches:
        order += engine.texts
        bench.answer(engine)
    assert order == [["first"], ["a", "c"], ["b"]]


@on_a_bench(merge_ms=0)
async def test_answers_reach_their_sentences_and_are_counted(bench: Bench) -> None:
    sentences = [*bench.put("one"), *bench.put("two", "three")]
    (engine,) = bench.engines
    bench.answer(engine)
    assert [one.answer.done() for one in sentences] == [True, False, False]
    bench.answer(engine)
    assert [text_of(one) for one in sentences] == ["ONE", "TWO", "THREE"]
    assert bench.seen == [(1, 2), (2, 4)]


@on_a_bench(merge_ms=0)
async def test_an_error_is_the_clients_or_ours(bench: Bench) -> None:
    good, bad, broken = bench.put("good", "bad", "broken", cost=1)
    batch = bench.engines[0].batches.pop(1)
    reasons: list[dict[str, Any]] = [
        {"hypotheses": [{"text": "GOOD"}], "num_tokens": 1},
        {"error": "half a character", "is_user_error": True},
        {"error": "no memory", "is_user_error": False},
    ]
    bench.callbacks.on_answers(batch, reasons, 0.1)
    assert text_of(good) == "GOOD"
    for one, kind, why in (
        (bad, InvalidRequestError, "half a character"),
        (broken, TranslationFailedError, "no memory"),
    ):
        with pytest.raises(kind, match=why):
            one.answer.result()


@on_a_bench(merge_ms=0)
async def test_cancelled_sentences_leave_the_queue_and_do_not_disturb_their_engine(bench: Bench) -> None:
    (working,) = bench.put("working")
    waiting = bench.put("waiting", "also")
    for one in (working, *waiting):
        one.answer.cancel()
    bench.dispatcher.queue.discard([working, *waiting])
    assert (bench.dispatcher.queue.length, bench.dispatcher.queue.cost) == (0, 0)
    bench.answer(bench.engines[0])
    assert bench.engines[0].texts == []


@on_a_bench(merge_ms=0)
async def test_a_cancelled_sentence_is_not_tried_again(bench: Bench) -> None:
    gone, _ = bench.put("gone", "there", cost=1)
    gone.answer.cancel()
    bench.lose(bench.engines[0], FakeEngine())
    assert bench.engines[0].texts == [["there"]]


@on_a_bench(merge_ms=0)
async def test_lost_sentences_are_tried_once_more_alone_and_first(bench: Bench) -> None:
    sentences = bench.put("a", "b", cost=1)
    bench.put("later")
    bench.lose(bench.engines[0], FakeEngine())
    (engine,) = bench.engines
    order = []
    while engine.batches:
        order += engine.texts
        bench.answer(engine)
    assert order == [["a"], ["b"], ["later"]]
    assert [text_of(one) for one in sentences] == ["A", "B"]


@on_a_bench(merge_ms=0, batch_tokens=1)
async def test_sentences_behind_cancelled_work_go_back_to_the_head_of_the_queue_unblamed(bench: Bench) -> None:
    abandoned, behind, waiting = bench.put("one", "two", "three", cost=5)
    (engine,) = bench.engines
    assert engine.texts == [["one"], ["two"]]
    bench.dispatcher.abandon([abandoned])
    assert abandoned.answer.cancelled()
    assert engine.is_abandoned(1)
    assert not engine.is_abandoned(2)
    another = FakeEngine()
    bench.lose(engine, another, is_cancelled=True)
    assert another.texts == [["two"], ["three"]]
    assert (behind.num_lost, waiting.num_lost, bench.dispatcher.queue.cost) == (0, 0, 0)


@on_a_bench(merge_ms=0)
async def test_a_sentence_that_lost_two_engines_fails(bench: Bench) -> None:
    (poison,) = bench.put("poison")
    for _ in range(2):
        bench.lose(bench.engines[0], FakeEngine())
    with pytest.raises(TranslationFailedError, match="two engines died"):
        poison.answer.result()
    assert bench.dispatcher.queue.length == 0


@on_a_bench(merge_ms=0)
async def test_sentences_for_a_replaced_model_are_rejected(bench: Bench) -> None:
    """Neither by what its last engine had in work, nor by what still stood in the queue."""
    sentences = [*bench.put("working"), *bench.put("waiting")]
    bench.lose(bench.engines[0], FakeEngine(model_info(OTHER)))
    for one in sentences:
        with pytest.raises(OverloadedError, match="replaced"):
            one.answer.result()
    assert bench.dispatcher.queue.length == 0


@on_a_bench(merge_ms=0, num_engines=2)
async def test_an_engine_with_the_old_model_serves_requests_for_it(bench: Bench) -> None:
    one, two = bench.engines
    sentences = [*bench.put("a"), *bench.put("b"), *bench.put("c")]
    new = FakeEngine(model_info(OTHER))
    bench.pool.engines.append(new)
    bench.pool.models = new.models
    bench.callbacks.on_change()
    assert [bench.callbacks.is_needed(engine) for engine in (one, two, new)] == [True, True, False]
    bench.lose(one)
    assert new.texts == []
    for _ in range(3):
        bench.answer(two)
    assert [text_of(each) for each in sentences] == ["A", "B", "C"]
    assert not bench.callbacks.is_needed(two)
    (later,) = bench.put("new", options=OPTIONS._replace(sha256=OTHER))
    bench.answer(new)
    assert text_of(later) == "NEW"


@on_a_bench(merge_ms=0)
async def test_an_engine_that_leaves_gets_nothing_more(bench: Bench) -> None:
    bench.engines[0].is_leaving = True
    bench.put("one")
    assert bench.engines[0].texts == []


@on_a_bench(merge_ms=0, batch_tokens=100, wait=0.5, seconds=5)
async def test_a_request_that_could_not_be_answered_in_time_is_rejected(bench: Bench) -> None:
    (engine,) = bench.engines
    bench.dispatcher.admit(10**9)  # nothing is known yet of how fast it is
    for _ in range(40):  # a second for a hundred tokens, whatever the size of a batch
        for cost in (50, 100):
            bench.put("x", cost=cost)
            bench.answer(engine, cost / 100)
    assert bench.dispatcher.delay() == 0.0
    bench.dispatcher.admit(480)
    with pytest.raises(OverloadedError, match="longer than 5 seconds: send less text"):
        bench.dispatcher.admit(560)
    bench.put("working", cost=100)
    bench.dispatcher.admit(100)  # nobody waits yet
    bench.put("waiting", cost=60)
    assert bench.dispatcher.delay() == pytest.approx(1.6, rel=0.1)
    with pytest.raises(OverloadedError, match="1 sentences are queued") as refused:
        bench.dispatcher.admit(1)
    assert refused.value.retry_after == pytest.approx(1.1, rel=0.15)
    engine.seconds_alone = 0.4  # with so slow a model, a wait of five times that is allowed
    bench.dispatcher.admit(1)
    engine.seconds_alone = 0.01
    bench.answer(engine, 1.0)
    bench.answer(engine, 0.6)
    bench.dispatcher.admit(1)


@on_a_bench()
async def test_without_an_engine_requests_are_rejected(bench: Bench) -> None:
    bench.engines[0].is_leaving = True
    with pytest.raises(OverloadedError, match="no engine is ready yet") as refused:
        bench.dispatcher.admit(1)
    assert refused.value.retry_after == 1.0


requests = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)
"""Each with options and sentences: the cost of each, and whether it kills its engine."""


@pytest.mark.slow
@given(requests, st.sampled_from([1, 12, 30, 768]), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_sentence_gets_its_answer_except_those_that_kill_engines(
    requests: list[tuple[int, list[tuple[int, bool]]]], batch_tokens: int, num_engines: int, random: Any
) -> None:
    async def work() -> None:
        bench = Bench(num_engines, batch_tokens=batch_tokens)
        sentences: list[QueuedSentence] = []
        for options, costs in requests:
            for cost, deadly in costs:
                text = f"{'deadly' if deadly else 'good'} {len(sentences)}"
                sentences += bench.put(text, options=(OPTIONS, OPTIONS._replace(beam_size=1))[options], cost=cost)
            await asyncio.sleep(random.choice([0, 0.001, 0.01]))
            step(bench, batch_tokens, random)
        while not all(one.answer.done() for one in sentences):
            await asyncio.sleep(0.01)
            step(bench, batch_tokens, random)
        for one in sentences:
            if one.text.startswith("deadly"):
                assert isinstance(one.answer.exception(), TranslationFailedError)
            else:
                assert text_of(one) == one.text.upper()

    run_with_fake_clock(work)


def step(bench: Bench, batch_tokens: int, random: Any) -> None:
    """One of the engines that have something answers, or dies of it."""
    for engine in bench.engines:
        batches = [batch.sentences for batch in engine.batches.values()]
        assert len(batches) <= MAX_BATCHES
        assert all(len({one.options for one in batch}) == 1 for batch in batches)
        assert all(len(batch) == 1 or sum(one.cost for one in batch) <= batch_tokens for batch in batches)
        if any(one.num_lost for batch in batches for one in batch):
            assert [len(batch) for batch in batches] == [1], "a sentence that may be the cause is tried alone"
    working = [engine for engine in bench.engines if engine.batches]
    if working:
        engine = random.choice(working)
        if any(one.text.startswith("deadly") for batch in engine.batches.values() for one in batch.sentences):
            bench.lose(engine, FakeEngine())
        else:
            bench.answer(engine)


SENTENCES = ("Where is the station?", "It is cold.", "I have two dogs.", "She reads a book.", "Good morning!")


@pytest.mark.slow
def test_concurrent_requests_get_the_same_translations_as_single_ones(demo: ServiceHarness) -> None:
    alone = {text: demo.translate(text)[0] for text in SENTENCES}
    assert len(set(alone.values())) == len(SENTENCES)
    before = demo.metrics.registry.get_sample_value("dragoman_batch_sentences_count") or 0.0

    async def together() -> list[str]:
        requests = [demo.service.translate([text], demo.options()) for text in SENTENCES * 8]
        return [found[0].text() for found in await asyncio.gather(*requests)]

    assert demo.run(together()) == [alone[text] for text in SENTENCES] * 8
    after = demo.metrics.registry.get_sample_value("dragoman_batch_sentences_count") or 0.0
    assert after - before < 40, "they were not merged"
    assert demo.options().sha256 != TOY_SHA256
