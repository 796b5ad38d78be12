"""The queue: first come, first served, batches of equal options, and nothing is lost or taken twice."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from service_harness import OPTIONS, queue_sentence

from dragoman.serving.dispatcher import SentenceQueue
from dragoman.serving.engine_pool import QueuedSentence
from dragoman.serving.engine_protocol import TranslationOptions

OPTIONS_LIST = (
    OPTIONS,
    OPTIONS._replace(beam_size=1),
    OPTIONS._replace(sha256="1" * 64),
    OPTIONS._replace(prefix="Der"),
)
option_sets = st.sets(st.sampled_from(OPTIONS_LIST), min_size=1)
places = st.lists(st.integers(0, 40), max_size=5, unique=True)


class Queue(RuleBasedStateMachine):
    """Everything that happens to the queue, in any order, beside a plain list of waiting sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.queue = SentenceQueue()
        self.clock = 0.0
        self.there: list[QueuedSentence] = []
        """Waiting sentences in order; those that lost an engine come first."""
        self.working: list[QueuedSentence] = []
        self.gone: list[QueuedSentence] = []
        self.sound = True

    @rule(options=st.sampled_from(OPTIONS_LIST), costs=st.lists(st.integers(1, 30), min_size=1, max_size=6))
    def put(self, options: TranslationOptions, costs: list[int]) -> None:
        self.clock += 1
        new = [
            queue_sentence(f"{self.clock} {i}", self.clock, self.loop, options, cost) for i, cost in enumerate(costs)
        ]
        self.queue.put(new)
        self.there += new

    @rule(which=places)
    def discard(self, which: list[int]) -> None:
        """Discard waiting sentences; others are not affected."""
        leaving = [self.there[place] for place in which if place < len(self.there)]
        self.queue.discard([*leaving, *self.working[:2], *self.gone[:2]])
        self.there = [one for one in self.there if one not in leaving]
        self.gone += leaving

    @rule(served=option_sets, budget=st.integers(0, 60))
    def take(self, served: set[TranslationOptions], budget: int) -> None:
        self.sound = False
        suiting = [one for one in self.there if one.options in served]
        first = self.queue.oldest(lambda options: options in served)
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

    @rule(served=option_sets)
    def unserved(self, served: set[TranslationOptions]) -> None:
        """Only these options are served."""
        unserved = {id(one) for one in self.queue if one.options not in served}
        assert unserved == {id(one) for one in self.there if one.options not in served}

    def expected(self, suiting: list[QueuedSentence], first: QueuedSentence, budget: int) -> list[QueuedSentence]:
        """Return the first, and those with equal options that fit into the budget."""
        lost = [one for one in suiting if one.num_lost]
        if lost:
            assert first is lost[0]
            return [first]
        assert first.queued_at == suiting[0].queued_at
        line = [one for one in suiting if one.options == first.options]
        assert first is line[0]
        if first.options.prefix:
            return [first]
        number = 1
        while number < len(line) and sum(one.cost for one in line[: number + 1]) <= budget:
            number += 1
        return line[:number]

    @precondition(lambda self: self.working)
    @rule(number=st.integers(1, 5))
    def lose(self, number: int) -> None:
        """An engine dies: its sentences come back once, before all others but those that came back earlier."""
        lost, self.working = self.working[:number], self.working[number:]
        self.gone += [one for one in lost if one.num_lost]
        lost = [one for one in lost if not one.num_lost]
        for one in lost:
            one.num_lost += 1
        self.queue.put(lost)
        before = [one for one in self.there if one.num_lost]
        self.there = [*before, *lost, *(one for one in self.there if not one.num_lost)]

    @invariant()
    def counts(self) -> None:
        assert self.queue.length == len(self.there)
        assert self.queue.cost == sum(one.cost for one in self.there)
        assert list(self.queue) == sorted(self.there, key=lambda one: not one.num_lost)

    def teardown(self) -> None:
        """No sentence is left behind."""
        self.loop.close()
        while self.sound and self.there:
            self.take(set(OPTIONS_LIST), 40)
            self.counts()
        if self.sound:
            assert self.queue.oldest(lambda _: True) is None


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=80, stateful_step_count=25)


def test_an_empty_queue_has_nothing_for_anybody() -> None:
    assert SentenceQueue().oldest(lambda _: True) is None
