"""Who gets which sentences when, and who is let in. Time and engines do here what the test says."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from house import GENERATION, WISH, House, Still, facts, jumping, piece
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.engine import Batch, Orders
from dragoman.serving.engine_process import DEPTH
from dragoman.serving.limits import Limits
from dragoman.serving.piece import Piece, Wish
from dragoman.serving.refusal import BrokenError, BusyError, MistakenError

OTHER = "1" * 64


class Board:
    """A dispatcher and engines that answer, or die, when they are told to."""

    def __init__(self, num_engines: int = 1, **limits: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.seen: list[tuple[int, int]] = []
        self.dispatcher = Dispatcher(
            Orders({}), num_engines, Limits.model_validate(limits), lambda *_, **__: None, self._see
        )
        self.crew = self.dispatcher.crew
        self.crew.facts = {"toy": facts()}
        self.crew.engines += [Still() for _ in range(num_engines)]
        self.ears = self.crew._ears

    def _see(self, batch: Batch, num_tokens: int) -> None:
        self.seen.append((len(batch.pieces), num_tokens))

    @property
    def engines(self) -> list[Still]:
        return [engine for engine in self.crew.engines if isinstance(engine, Still)]

    def put(self, *texts: str, wish: Wish = WISH, cost: int = 0) -> list[Piece]:
        pieces = [piece(text, self.loop.time(), self.loop, wish, cost) for text in texts]
        self.dispatcher.put(pieces)
        return pieces

    def answer(self, engine: Still, seconds: float = 0.1) -> None:
        """The first of its batches, each sentence in capitals."""
        batch = engine.batches.pop(min(engine.batches))
        answers = [{"hypotheses": [[one.text.upper(), 0.0, 0.0]], "num_tokens": 2} for one in batch.pieces]
        self.ears.told(batch, answers, seconds)

    def lose(self, engine: Still, another: Still | None = None) -> None:
        """As a crew does it; and another comes in its place."""
        lost = [one for batch in engine.batches.values() for one in batch.pieces]
        self.crew.engines.remove(engine)
        self.ears.lost(lost)
        if another is not None:
            self.crew.engines.append(another)
            self.crew.facts = another.facts
            self.ears.joined()


def text_of(one: Piece) -> str:
    return str(one.answer.result()["hypotheses"][0][0])


def on_a_board(num_engines: int = 1, **limits: Any) -> Callable[[Callable[[Board], Any]], Callable[[], None]]:
    """The test runs in a loop whose clock jumps, with a board of its own."""

    def made(test: Callable[[Board], Any]) -> Callable[[], None]:
        def run() -> None:
            async def work() -> None:
                await test(Board(num_engines, **limits))

            jumping(work)

        run.__name__ = test.__name__
        return run

    return made


@on_a_board(merge_ms=3)
async def test_sentences_of_several_requests_share_a_batch_after_a_moment(board: Board) -> None:
    start = board.loop.time()
    board.put("one", "two")
    await asyncio.sleep(0.001)
    board.put("three")
    (engine,) = board.engines
    assert engine.texts == []
    while not engine.texts:
        await asyncio.sleep(0.0001)
    assert engine.texts == [["one", "two", "three"]]
    assert board.loop.time() - start == pytest.approx(0.003, abs=2e-4)


@on_a_board(merge_ms=3)
async def test_where_a_batch_takes_seconds_a_twentieth_of_them_is_waited_for_company(board: Board) -> None:
    (engine,) = board.engines
    board.put("one", cost=10)
    await asyncio.sleep(0.01)
    board.answer(engine, seconds=2.0)
    start = board.loop.time()
    board.put("two", cost=10)
    await asyncio.sleep(0.05)
    board.put("three", cost=1)
    assert engine.texts == []
    while not engine.texts:
        await asyncio.sleep(0.001)
    assert engine.texts == [["two", "three"]]
    assert 0.1 <= board.loop.time() - start < 0.11  # the third makes it a little longer


@on_a_board(num_engines=2, merge_ms=0)
async def test_an_engine_leaves_a_fair_share_to_one_that_is_nearly_done(board: Board) -> None:
    first, second = board.engines
    board.put("a", cost=10)
    board.put("b", cost=10)
    assert (first.texts, second.texts) == ([["a"]], [["b"]])
    board.put(*"cdefghi", cost=10)
    board.answer(first)
    assert first.texts == [list("cdef")]  # of 80 tokens, half
    board.answer(second)
    assert second.texts == [list("ghi")]


@on_a_board(merge_ms=0)
async def test_without_merging_a_sentence_goes_at_once(board: Board) -> None:
    board.put("one")
    board.put("two")
    assert board.engines[0].texts == [["one"]]
    board.answer(board.engines[0], seconds=2.0)
    assert board.engines[0].texts == [["two"]]


@on_a_board(merge_ms=3, batch_tokens=20)
async def test_a_full_batch_waits_for_nobody_and_is_no_fuller_than_allowed(board: Board) -> None:
    board.put("one", "two", "three", "four", cost=7)
    assert board.engines[0].texts == [["one", "two"]]


@on_a_board(merge_ms=0, batch_tokens=20)
async def test_an_engine_at_work_takes_one_batch_more_and_only_a_full_one(board: Board) -> None:
    (engine,) = board.engines
    board.put("one", cost=7)
    board.put("two", cost=7)
    assert engine.texts == [["one"]]
    board.put("three", "four", cost=7)
    assert engine.texts == [["one"], ["two", "three"]]
    board.put("five", "six", "seven", cost=7)
    assert len(engine.batches) == DEPTH
    board.answer(engine)
    assert engine.texts == [["two", "three"], ["four", "five"]]


@on_a_board(num_engines=3, merge_ms=0)
async def test_idle_engines_share_what_there_is(board: Board) -> None:
    board.put(*"abcdef", cost=10)
    assert sorted(engine.texts[0] for engine in board.engines) == [["a", "b"], ["c", "d"], ["e", "f"]]


@on_a_board(merge_ms=0)
async def test_different_wishes_do_not_share_a_batch_and_the_oldest_comes_first(board: Board) -> None:
    (engine,) = board.engines
    board.put("first")
    for text, wish in (("a", WISH._replace(beam_size=1)), ("b", WISH), ("c", WISH._replace(beam_size=1))):
        await asyncio.sleep(0.01)
        board.put(text, wish=wish)
    order = []
    while engine.batches:
        order += engine.texts
        board.answer(engine)
    assert order == [["first"], ["a", "c"], ["b"]]


@on_a_board(merge_ms=0)
async def test_answers_come_to_whom_they_belong_and_are_counted(board: Board) -> None:
    pieces = [*board.put("one"), *board.put("two", "three")]
    (engine,) = board.engines
    board.answer(engine)
    assert [one.answer.done() for one in pieces] == [True, False, False]
    board.answer(engine)
    assert [text_of(one) for one in pieces] == ["ONE", "TWO", "THREE"]
    assert board.seen == [(1, 2), (2, 4)]


@on_a_board(merge_ms=0)
async def test_a_reason_is_the_askers_fault_or_ours(board: Board) -> None:
    good, bad, broken = board.put("good", "bad", "broken", cost=1)
    batch = board.engines[0].batches.pop(1)
    reasons: list[dict[str, Any]] = [
        {"hypotheses": [["GOOD", 0.0, 0.0]], "num_tokens": 1},
        {"wrong": "half a character", "mendable": True},
        {"wrong": "no memory", "mendable": False},
    ]
    board.ears.told(batch, reasons, 0.1)
    assert text_of(good) == "GOOD"
    for one, kind, why in ((bad, MistakenError, "half a character"), (broken, BrokenError, "no memory")):
        with pytest.raises(kind, match=why):
            one.answer.result()


@on_a_board(merge_ms=0)
async def test_who_has_gone_leaves_the_queue_and_is_no_trouble_to_an_engine_that_has_it(board: Board) -> None:
    (working,) = board.put("working")
    waiting = board.put("waiting", "also")
    for one in (working, *waiting):
        one.answer.cancel()
    board.dispatcher.discard([working, *waiting])
    assert (board.dispatcher.waiting.number, board.dispatcher.waiting.cost) == (0, 0)
    board.answer(board.engines[0])
    assert board.engines[0].texts == []


@on_a_board(merge_ms=0)
async def test_who_has_gone_is_not_tried_again(board: Board) -> None:
    gone, _ = board.put("gone", "there", cost=1)
    gone.answer.cancel()
    board.lose(board.engines[0], Still())
    assert board.engines[0].texts == [["there"]]


@on_a_board(merge_ms=0)
async def test_what_was_lost_is_tried_once_more_each_alone_and_before_all_others(board: Board) -> None:
    pieces = board.put("a", "b", cost=1)
    board.put("later")
    board.lose(board.engines[0], Still())
    (engine,) = board.engines
    order = []
    while engine.batches:
        order += engine.texts
        board.answer(engine)
    assert order == [["a"], ["b"], ["later"]]
    assert [text_of(one) for one in pieces] == ["A", "B"]


@on_a_board(merge_ms=0)
async def test_what_has_lost_two_engines_is_given_up(board: Board) -> None:
    (poison,) = board.put("poison")
    for _ in range(2):
        board.lose(board.engines[0], Still())
    with pytest.raises(BrokenError, match="the engine was lost twice over this sentence"):
        poison.answer.result()
    assert board.dispatcher.waiting.number == 0


@on_a_board(merge_ms=0)
async def test_a_model_that_was_replaced_by_another_is_not_waited_for(board: Board) -> None:
    """Neither by what its last engine had in work, nor by what still stood in the queue."""
    pieces = [*board.put("working"), *board.put("waiting")]
    board.lose(board.engines[0], Still(facts(OTHER)))
    for one in pieces:
        with pytest.raises(BusyError, match="the model was replaced meanwhile: ask again"):
            one.answer.result()
    assert board.dispatcher.waiting.number == 0


@on_a_board(merge_ms=0, num_engines=2)
async def test_while_an_engine_has_the_old_model_who_asked_for_it_gets_it(board: Board) -> None:
    one, two = board.engines
    pieces = [*board.put("a"), *board.put("b"), *board.put("c")]
    new = Still(facts(OTHER))
    board.crew.engines.append(new)
    board.crew.facts = new.facts
    board.ears.joined()
    assert [board.ears.wanted(engine) for engine in (one, two, new)] == [True, True, False]
    board.lose(one)
    assert new.texts == []
    for _ in range(3):
        board.answer(two)
    assert [text_of(each) for each in pieces] == ["A", "B", "C"]
    assert not board.ears.wanted(two)
    (later,) = board.put("new", wish=WISH._replace(generation=OTHER))
    board.answer(new)
    assert text_of(later) == "NEW"


@on_a_board(merge_ms=0)
async def test_an_engine_that_leaves_gets_nothing_more(board: Board) -> None:
    board.engines[0].leaving = True
    board.put("one")
    assert board.engines[0].texts == []


@on_a_board(merge_ms=0, batch_tokens=100, wait=0.5, seconds=5)
async def test_nobody_is_let_in_who_could_not_be_answered_in_time(board: Board) -> None:
    (engine,) = board.engines
    board.dispatcher.let_in(10**9)  # nothing is known yet of how fast it is
    for _ in range(40):  # a second for a hundred tokens, whatever the size of a batch
        for cost in (50, 100):
            board.put("x", cost=cost)
            board.answer(engine, cost / 100)
    assert board.dispatcher.delay() == 0.0
    board.dispatcher.let_in(480)
    with pytest.raises(BusyError, match="this would take longer than 5 seconds: send less at once"):
        board.dispatcher.let_in(560)
    board.put("working", cost=100)
    board.dispatcher.let_in(100)  # nobody waits yet
    board.put("waiting", cost=60)
    assert board.dispatcher.delay() == pytest.approx(1.6, rel=0.1)
    with pytest.raises(BusyError, match="1 sentences wait: come again") as refused:
        board.dispatcher.let_in(1)
    assert refused.value.retry_after == pytest.approx(1.1, rel=0.15)
    engine.alone = 0.4  # where even one takes that long, five times as long is borne
    board.dispatcher.let_in(1)
    engine.alone = 0.01
    board.answer(engine, 1.0)
    board.answer(engine, 0.6)
    board.dispatcher.let_in(1)


@on_a_board()
async def test_without_an_engine_nobody_is_let_in(board: Board) -> None:
    board.engines[0].leaving = True
    with pytest.raises(BusyError, match="no engine is ready yet") as refused:
        board.dispatcher.let_in(1)
    assert refused.value.retry_after == 1.0


requests = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)
"""Each a wish, and sentences: what each costs, and whether it kills whoever translates it."""


@given(requests, st.sampled_from([1, 12, 30, 768]), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_sentence_gets_its_own_answer_but_those_that_kill_whatever_happens(
    requests: list[tuple[int, list[tuple[int, bool]]]], batch_tokens: int, num_engines: int, random: Any
) -> None:
    async def work() -> None:
        board = Board(num_engines, batch_tokens=batch_tokens)
        pieces: list[Piece] = []
        for wish, sentences in requests:
            for cost, deadly in sentences:
                text = f"{'deadly' if deadly else 'good'} {len(pieces)}"
                pieces += board.put(text, wish=(WISH, WISH._replace(beam_size=1))[wish], cost=cost)
            await asyncio.sleep(random.choice([0, 0.001, 0.01]))
            step(board, batch_tokens, random)
        while not all(one.answer.done() for one in pieces):
            await asyncio.sleep(0.01)
            step(board, batch_tokens, random)
        for one in pieces:
            if one.text.startswith("deadly"):
                assert isinstance(one.answer.exception(), BrokenError)
            else:
                assert text_of(one) == one.text.upper()

    jumping(work)


def step(board: Board, batch_tokens: int, random: Any) -> None:
    """One of the engines that have something answers, or dies of it."""
    for engine in board.engines:
        batches = [batch.pieces for batch in engine.batches.values()]
        assert len(batches) <= DEPTH
        assert all(len({one.wish for one in batch}) == 1 for batch in batches)
        assert all(len(batch) == 1 or sum(one.cost for one in batch) <= batch_tokens for batch in batches)
        if any(one.lost for batch in batches for one in batch):
            assert [len(batch) for batch in batches] == [1], "who may be the cause is tried without company"
    working = [engine for engine in board.engines if engine.batches]
    if working:
        engine = random.choice(working)
        if any(one.text.startswith("deadly") for batch in engine.batches.values() for one in batch.pieces):
            board.lose(engine, Still())
        else:
            board.answer(engine)


SENTENCES = ("Where is the station?", "It is cold.", "I have two dogs.", "She reads a book.", "Good morning!")


@pytest.mark.slow
def test_a_real_engine_gives_each_of_many_who_ask_at_once_what_it_gives_them_alone(demo: House) -> None:
    alone = {text: demo.translate(text)[0] for text in SENTENCES}
    assert len(set(alone.values())) == len(SENTENCES)
    before = demo.metrics.registry.get_sample_value("dragoman_batch_sentences_count") or 0.0

    async def together() -> list[str]:
        asking = [demo.service.translate([text], demo.wish()) for text in SENTENCES * 8]
        return [found[0].text for found in await asyncio.gather(*asking)]

    assert demo.run(together()) == [alone[text] for text in SENTENCES] * 8
    after = demo.metrics.registry.get_sample_value("dragoman_batch_sentences_count") or 0.0
    assert after - before < 40, "they were not merged"
    assert demo.wish().generation != GENERATION
