"""The queue: first come, first served, of those who wish the same, and nothing is lost or given twice."""

import asyncio

from house import WISH, piece
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.serving.piece import Piece, Wish
from dragoman.serving.waiting import Waiting

WISHES = (WISH, WISH._replace(beam_size=1), WISH._replace(generation="1" * 64), WISH._replace(prefix="Der"))
some_wishes = st.sets(st.sampled_from(WISHES), min_size=1)
places = st.lists(st.integers(0, 40), max_size=5, unique=True)


class Queue(RuleBasedStateMachine):
    """Everything that happens to the queue, in any order, beside a plain list of who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.queue = Waiting()
        self.clock = 0.0
        self.there: list[Piece] = []
        """Who waits, in the order they came; who has lost an engine, before all others."""
        self.working: list[Piece] = []
        self.gone: list[Piece] = []
        self.sound = True

    @rule(wish=st.sampled_from(WISHES), costs=st.lists(st.integers(1, 30), min_size=1, max_size=6))
    def put(self, wish: Wish, costs: list[int]) -> None:
        self.clock += 1
        new = [piece(f"{self.clock} {i}", self.clock, self.loop, wish, cost) for i, cost in enumerate(costs)]
        self.queue.put(new)
        self.there += new

    @rule(which=places)
    def discard(self, which: list[int]) -> None:
        """Of those who wait; and some who do not, at which nothing may happen."""
        leaving = [self.there[place] for place in which if place < len(self.there)]
        self.queue.discard([*leaving, *self.working[:2], *self.gone[:2]])
        self.there = [one for one in self.there if one not in leaving]
        self.gone += leaving

    @rule(wishes=some_wishes, budget=st.integers(0, 60))
    def take(self, wishes: set[Wish], budget: int) -> None:
        self.sound = False
        suiting = [one for one in self.there if one.wish in wishes]
        first = self.queue.oldest(lambda wish: wish in wishes)
        if not suiting:
            assert first is None
        else:
            assert first is not None
            expected = self.expected(suiting, first, budget)
            taken = self.queue.take(first, budget)
            assert taken == expected
            self.there = [one for one in self.there if one not in taken]
            self.working += taken
        self.sound = True

    @rule(wishes=some_wishes)
    def strand(self, wishes: set[Wish]) -> None:
        """Nobody fulfils any wish but these."""
        stranded = {id(one) for one in self.queue.stranded(lambda wish: wish in wishes)}
        assert stranded == {id(one) for one in self.there if one.wish not in wishes}

    def expected(self, suiting: list[Piece], first: Piece, budget: int) -> list[Piece]:
        """The first, and then all who wish the same for whom there is room."""
        lost = [one for one in suiting if one.lost]
        if lost:
            assert first is lost[0]
            return [first]
        assert first.asked == suiting[0].asked
        line = [one for one in suiting if one.wish == first.wish]
        assert first is line[0]
        if first.wish.prefix:
            return [first]
        number = 1
        while number < len(line) and sum(one.cost for one in line[: number + 1]) <= budget:
            number += 1
        return line[:number]

    @precondition(lambda self: self.working)
    @rule(number=st.integers(1, 5))
    def lose(self, number: int) -> None:
        """An engine dies: what it had comes back once, before all who have lost none, behind those who have."""
        lost, self.working = self.working[:number], self.working[number:]
        self.gone += [one for one in lost if one.lost]
        lost = [one for one in lost if not one.lost]
        for one in lost:
            one.lost += 1
        self.queue.put(lost)
        before = [one for one in self.there if one.lost]
        self.there = [*before, *lost, *(one for one in self.there if not one.lost)]

    @invariant()
    def counts(self) -> None:
        assert self.queue.number == len(self.there)
        assert self.queue.cost == sum(one.cost for one in self.there)
        assert all(one.waiting for one in self.there)
        assert not any(one.waiting for one in self.working + self.gone)

    def teardown(self) -> None:
        """Nobody is left behind."""
        self.loop.close()
        while self.sound and self.there:
            self.take(set(WISHES), 40)
            self.counts()
        if self.sound:
            assert self.queue.oldest(lambda _: True) is None


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=80, stateful_step_count=25)


def test_an_empty_queue_has_nothing_for_anybody() -> None:
    assert Waiting().oldest(lambda _: True) is None
