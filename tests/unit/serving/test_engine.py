"""An engine seen from the process that speaks HTTP."""

import asyncio
import sys
from pathlib import Path

import pytest
from house import WISH, Still, facts, jumping, piece

from dragoman.serving.engine import Engine, Orders, ended


def test_it_knows_what_it_has_in_work_and_since_when() -> None:
    async def work() -> None:
        engine, loop = Still(), asyncio.get_running_loop()
        assert (engine.cost, engine.oldest(), engine.on_trial) == (0, None, False)
        engine.send([piece("a", 1.0, loop, cost=3), piece("b", 2.0, loop, cost=4)], 5.0)
        lost = piece("c", 1.0, loop, cost=5)
        lost.lost = 1
        engine.send([lost], 6.0)
        assert (engine.cost, engine.oldest(), engine.on_trial) == (12, 5.0, True)
        engine.batches.pop(1)
        assert engine.oldest() == 6.0
        engine._last = 8.0  # a batch waits for the one before it
        assert engine.oldest() == 8.0

    jumping(work)


def test_it_suits_a_wish_for_the_very_model_it_has_unless_it_leaves() -> None:
    engine = Still(facts("1" * 64))
    assert not engine.suits(WISH)
    assert engine.suits(WISH._replace(generation="1" * 64))
    engine.leaving = True
    assert not engine.suits(WISH._replace(generation="1" * 64))


def test_what_cannot_be_sent_is_not_taken_for_work() -> None:
    async def work() -> None:
        engine = Still()
        with pytest.raises(UnicodeEncodeError):
            engine.send([piece("half \ud800", 1.0, asyncio.get_running_loop(), cost=3)], 5.0)
        assert engine.batches == {}

    jumping(work)


@pytest.mark.slow
def test_one_that_ends_before_it_is_ready_is_named_by_its_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ValueError, match="an engine process ended with code 1 before it was ready"):
        asyncio.run(Engine.started(Orders({"a": tmp_path})))


@pytest.mark.slow
def test_a_process_that_goes_on_without_reason_is_killed() -> None:
    async def work() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "600")
        await ended(process, patience=0.1)
        assert process.returncode == -9

    asyncio.run(work())
