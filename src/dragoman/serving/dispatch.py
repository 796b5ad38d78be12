"""Sentences to engines: merged across requests, shared out evenly, and let in only if there is time for them."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

from dragoman.serving.crew import Crew, Ears, Say
from dragoman.serving.engine import Batch, Engine, Orders
from dragoman.serving.engine_process import DEPTH
from dragoman.serving.limits import Limits
from dragoman.serving.pace import Pace
from dragoman.serving.piece import Piece, Wish
from dragoman.serving.refusal import BrokenError, BusyError, MistakenError
from dragoman.serving.waiting import Waiting

COMPANY: Final = 0.05
"""Of the time that a batch will take, what it may wait for more sentences. Those whose answers came together ask again
within a moment, but not within the same one; and a slow model is far slower with a few than with many."""

BORNE: Final = 5.0
"""Times what a sentence takes where nobody else asks: so long a wait is borne, if it is longer than the limit. A model
that takes a third of a second for one is asked by people who have the patience."""


class Dispatcher:
    """The queue, the engines, and the pace at which these work."""

    def __init__(
        self,
        orders: Orders,
        num_engines: int,
        limits: Limits,
        say: Say,
        seen: Callable[[Batch, int], None],
    ) -> None:
        ears = Ears(self._told, self._lost, self._wanted, self._go_on, say)
        self.crew = Crew(orders, num_engines, limits.engine_seconds, ears)
        self.waiting = Waiting()
        self._limits = limits
        self._seen = seen
        self._timer: asyncio.TimerHandle | None = None
        self._pace = Pace()

    def delay(self, more: int = 0) -> float:
        """Seconds until what is there is done, and so many tokens more."""
        return self._pace.seconds(self._ahead() + more, len(self.crew.working), self._limits.batch_tokens)

    def _ahead(self) -> int:
        """Tokens that wait or are in work."""
        return self.waiting.cost + sum(engine.cost for engine in self.crew.working)

    def let_in(self, cost: int) -> None:
        """Refuses what could not be answered in time: better at once than late."""
        if not self.crew.ready:
            raise BusyError("no engine is ready yet: come again", 1.0)
        self.knock()
        if self.delay(cost) > self._limits.seconds:
            raise BusyError(f"this would take longer than {self._limits.seconds:g} seconds: send less at once", 1.0)

    def knock(self) -> None:
        """Refuses whoever would have to wait too long, whatever it is that they want."""
        alone = min((engine.alone for engine in self.crew.engines), default=0.0)
        delay, most = self.delay(), max(self._limits.wait, BORNE * alone)
        if delay > most and self.waiting.number:
            raise BusyError(f"{self.waiting.number} sentences wait: come again", delay - most)

    def put(self, pieces: list[Piece]) -> None:
        """To be translated; each piece's answer comes to itself."""
        self.waiting.put(pieces)
        self._share_out()

    def discard(self, pieces: list[Piece]) -> None:
        """Nobody waits for them any more."""
        self.waiting.discard(pieces)

    def _share_out(self) -> None:
        """Give work to whoever has room, as long as there is some."""
        while self._one_batch():
            pass

    def _one_batch(self) -> bool:
        """To the least busy engine. A sentence without company waits for some a moment; an engine that is at work takes
        more only when a batch is full.
        """
        clock, engines = asyncio.get_running_loop().time, self.crew.engines
        full = self.waiting.cost >= self._limits.batch_tokens
        for engine in sorted(engines, key=lambda engine: len(engine.batches)):
            first = self.waiting.oldest(engine.suits) if len(engine.batches) < DEPTH else None
            if first is None or (engine.batches and (not full or first.lost or engine.on_trial)):
                continue
            early = first.asked + self._patience() - clock()
            if early > 0 and not full and not first.lost:
                self._again_in(early)
                continue
            engine.send(self.waiting.take(first, self._share()), clock())
            return True
        return False

    def _share(self) -> int:
        """Tokens for one engine, so that all have as much. Who took all that waits while the others are nearly done
        would leave them with nothing to do, and get all of it again when those who wait for it ask anew.
        """
        each = math.ceil(self._ahead() / max(1, len(self.crew.working)))
        return min(self._limits.batch_tokens, each)

    def _patience(self) -> float:
        """Seconds that the first of a batch waits for company."""
        least, most = self._limits.merge_ms / 1000, self._limits.batch_tokens
        expected = self._pace.seconds(min(self.waiting.cost, most), 1, most)
        return max(least, COMPANY * expected) if least else 0.0

    def _again_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._share_out()

    def _told(self, batch: Batch, answers: list[dict[str, Any]], seconds: float) -> None:
        self._pace.learn(batch.cost, seconds)
        self._share_out()
        for piece, answer in zip(batch.pieces, answers, strict=True):
            if piece.answer.done():
                continue
            if "wrong" in answer:
                kind = MistakenError if answer["mendable"] else BrokenError
                piece.answer.set_exception(kind(answer["wrong"]))
            else:
                piece.answer.set_result(answer)
        self._seen(batch, sum(answer.get("num_tokens", 0) for answer in answers))

    def _lost(self, pieces: list[Piece]) -> None:
        """Once more, and alone: whichever of them it was that killed the engine, the others must not fall with it."""
        for piece in pieces:
            piece.lost += 1
            if piece.answer.done():
                continue
            if piece.lost > 1:
                piece.answer.set_exception(BrokenError("the engine was lost twice over this sentence"))
            else:
                self.waiting.put([piece])
        self._go_on()

    def _go_on(self) -> None:
        """With other engines than before. Who asked for a model that was replaced, and whose last engine is gone, would
        wait in vain.
        """
        stranded = self.waiting.stranded(self._served)
        self.waiting.discard(stranded)
        for piece in stranded:
            if not piece.answer.done():
                piece.answer.set_exception(BusyError("the model was replaced meanwhile: ask again", 1.0))
        self._share_out()

    def _served(self, wish: Wish) -> bool:
        """By an engine that is there, or by one that will take a dead one's place."""
        now = self.crew.facts[wish.model].sha256 == wish.generation
        return now or any(engine.suits(wish) for engine in self.crew.engines)

    def _wanted(self, engine: Engine) -> bool:
        return self.waiting.oldest(engine.suits) is not None
