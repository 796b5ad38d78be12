"""Engine processes that die, hang, or are exchanged, while people ask. The model is tiny; the processes are real."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest
from house import House, Still, opened, until

from dragoman.serving.engine import Engine, Orders
from dragoman.serving.refusal import BrokenError, BusyError

pytestmark = pytest.mark.slow

PHRASES = {
    "two red dogs.": "zwei rote Hunde.",
    "ten old houses.": "zehn alte Häuser.",
    "four green women.": "vier grüne Frauen.",
}
POISON = "ten old houses and three red tables and four green dogs " * 12


def children() -> set[int]:
    """The engine processes that this one has."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"engine_process" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def freeze(engine: Engine) -> None:
    """So that it is certain to have still what it was given."""
    os.kill(engine.process.pid, signal.SIGSTOP)


async def answered(house: House, *texts: str) -> list[str]:
    return [found.text for found in await house.service.translate(texts, house.wish())]


def replace(folder: Path, by: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def damage(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def test_when_an_engine_is_killed_the_answer_still_comes_and_another_takes_its_place(tiny: Path) -> None:
    async def work(house: House) -> None:
        (engine,) = house.crew.engines
        freeze(engine)
        asking = asyncio.create_task(answered(house, *PHRASES))
        await until(lambda: engine.batches)
        os.kill(engine.process.pid, signal.SIGKILL)
        await until(lambda: not house.crew.engines)
        assert not house.service.ready
        with pytest.raises(BusyError, match="no engine is ready yet"):
            await answered(house, "two red dogs.")
        assert await asking == list(PHRASES.values())
        assert house.service.ready
        assert house.crew.engines[0] is not engine

    with opened({"tiny": tiny}) as house:
        house.run(work(house))
        assert house.told == [
            {"event": "engine lost", "level": "warning", "code": -9, "pieces": 3},
            {"event": "engine started", "level": "info", "restarts": 1},
        ]
        assert house.metrics.registry.get_sample_value("dragoman_engine_restarts") == 1.0


def test_with_two_engines_one_that_dies_is_hardly_noticed(tiny: Path) -> None:
    async def work(house: House) -> None:
        for engine in list(house.crew.engines):
            asking = [asyncio.create_task(answered(house, phrase)) for phrase in PHRASES for _ in range(4)]
            await asyncio.sleep(0)
            engine.kill()
            assert await asyncio.gather(*asking) == [[PHRASES[phrase]] for phrase in PHRASES for _ in range(4)]
            assert house.service.ready
        await until(lambda: house.crew.restarts == 2)

    with opened({"tiny": tiny}, num_engines=2) as house:
        house.run(work(house))
        assert len(set(house.pids)) == 2


async def hunt(house: House, text: str) -> None:
    """Kill whichever engine is given this."""
    while True:
        for engine in house.crew.engines:
            if any(one.text == text for batch in engine.batches.values() for one in batch.pieces):
                engine.kill()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("batch_tokens", [768, 1])
def test_a_sentence_that_kills_engines_is_given_up_and_its_neighbours_get_their_answers(
    tiny: Path, batch_tokens: int
) -> None:
    """With one token a batch, a busy engine would take more work at once: it must not, while it tries the sentence."""

    async def work(house: House) -> None:
        (engine,) = house.crew.engines
        freeze(engine)
        poison = asyncio.create_task(house.service.translate([POISON], house.wish(), split=False))
        neighbours = [asyncio.create_task(answered(house, phrase)) for phrase in PHRASES]
        hunting = asyncio.create_task(hunt(house, POISON))
        with pytest.raises(BrokenError, match="the engine was lost twice over this sentence"):
            await poison
        hunting.cancel()
        assert await asyncio.gather(*neighbours) == [[phrase] for phrase in PHRASES.values()]

    with opened({"tiny": tiny}, batch_tokens=batch_tokens) as house:
        house.run(work(house))
        assert house.crew.restarts >= 2


def test_an_engine_that_does_not_answer_is_replaced(tiny: Path) -> None:
    async def work(house: House) -> None:
        (engine,) = house.crew.engines
        freeze(engine)
        assert await answered(house, "two red dogs.") == ["zwei rote Hunde."]
        assert engine.process.returncode == -signal.SIGKILL

    with opened({"tiny": tiny}, engine_seconds=5.0) as house:
        house.run(work(house))
        assert house.told[0] == {"event": "engine does not answer", "level": "error", "seconds": 5.0}


def test_a_reload_opens_the_models_anew_and_nobody_is_refused_meanwhile(tiny: Path) -> None:
    async def work(house: House) -> None:
        before, facts = set(house.pids), house.service.models
        reloading = asyncio.create_task(house.crew.reload())
        while not reloading.done():
            assert await answered(house, *PHRASES) == list(PHRASES.values())
        await reloading
        await until(lambda: len(house.pids) == 2)
        assert before.isdisjoint(house.pids)
        assert house.service.models == facts
        assert before.isdisjoint(children())

    with opened({"tiny": tiny}, num_engines=2) as house:
        house.run(work(house))
        assert house.told == []


def test_after_a_reload_who_came_before_is_answered_by_the_old_model_and_who_comes_after_by_the_new(
    folder: Path, other: Path
) -> None:
    async def work(house: House) -> None:
        (engine,), old = house.crew.engines, house.wish()
        freeze(engine)
        before = [asyncio.create_task(answered(house, phrase)) for phrase in PHRASES]  # two in work, one in the queue
        await until(lambda: len(engine.batches) == 2 and house.dispatcher.waiting.number == 1)
        replace(folder, other)
        reloading = asyncio.create_task(house.crew.reload())
        await until(lambda: house.wish() != old)
        assert await answered(house, *PHRASES) == list(PHRASES.values())
        assert not any(task.done() for task in before)
        os.kill(engine.process.pid, signal.SIGCONT)
        assert await asyncio.gather(*before) == [[phrase] for phrase in PHRASES.values()]
        await reloading
        assert engine.process.returncode is not None
        await until(lambda: len(house.pids) == 1)

    with opened({"tiny": folder}, batch_tokens=1) as house:
        house.run(work(house))
        assert house.service.models["tiny"].title == "the other"


def test_a_reload_of_a_damaged_folder_leaves_the_old_model_serving(folder: Path) -> None:
    with opened({"tiny": folder}, num_engines=2) as house:
        before, facts = house.pids, house.service.models
        damage(folder)
        with pytest.raises(ValueError, match=r"model\.safetensors: the file has"):
            house.run(house.crew.reload())
        shutil.rmtree(folder)
        with pytest.raises(ValueError, match="there is no such folder"):
            house.run(house.crew.reload())
        assert (house.pids, house.service.models) == (before, facts)
        assert house.translate(*PHRASES) == list(PHRASES.values())


def test_a_reload_of_which_one_engine_fails_leaves_no_new_one_behind(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = Engine.started, 0

    async def started(orders: Orders) -> Engine:
        nonlocal count
        count += 1
        if count == 2:
            raise ValueError("no room for a second")
        return await real(orders)

    with opened({"tiny": tiny}, num_engines=3) as house:
        before, there = house.pids, children()
        monkeypatch.setattr(Engine, "started", started)
        with pytest.raises(ValueError, match="no room for a second"):
            house.run(house.crew.reload())
        assert count == 3
        assert house.pids == before
        assert children() == there


@pytest.mark.parametrize("num_engines", [1, 2])
def test_an_engine_that_dies_after_its_folder_was_replaced_brings_the_new_model_for_all(
    folder: Path, other: Path, num_engines: int
) -> None:
    async def work(house: House) -> None:
        engines, old = list(house.crew.engines), house.wish()
        for engine in engines:
            freeze(engine)
        asking = [asyncio.create_task(answered(house, phrase)) for phrase in PHRASES]
        await until(lambda: engines[0].batches)
        replace(folder, other)
        engines[0].kill()
        for engine in engines[1:]:
            os.kill(engine.process.pid, signal.SIGCONT)
        found = await asyncio.gather(*asking, return_exceptions=True)
        if num_engines == 1:  # nobody has the old model any more: better said at once than waited for in vain
            assert {type(one) for one in found} == {BusyError}
            assert "the model was replaced meanwhile: ask again" in str(found[0])
        else:
            assert found == [[phrase] for phrase in PHRASES.values()]
        await until(lambda: house.wish() != old and len(house.pids) == num_engines)
        assert await answered(house, *PHRASES) == list(PHRASES.values())

    with opened({"tiny": folder}, num_engines=num_engines) as house:
        house.run(work(house))
        assert house.service.models["tiny"].title == "the other"


def test_a_damaged_folder_keeps_an_engine_from_being_replaced_until_it_is_mended(folder: Path, tiny: Path) -> None:
    async def work(house: House) -> None:
        damage(folder)
        house.crew.engines[0].kill()
        await until(lambda: len(house.told) >= 3)
        assert [line["event"] for line in house.told[:3]] == ["engine lost", *["engine not started"] * 2]
        assert "model.safetensors: the file has" in house.told[1]["reason"]
        assert not house.service.ready
        replace(folder, tiny)
        await until(lambda: house.service.ready)
        assert await answered(house, *PHRASES) == list(PHRASES.values())

    with opened({"tiny": folder}) as house:
        house.run(work(house))


def test_a_reload_while_a_dead_engine_is_replaced_leaves_as_many_as_wanted(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reloaded = Engine.started, asyncio.Event()
    held = [reloaded]

    async def started(orders: Orders) -> Engine:
        """The first of them, which is to replace the dead one, takes its time."""
        if held:
            await held.pop().wait()
        return await real(orders)

    async def work(house: House) -> None:
        monkeypatch.setattr(Engine, "started", started)
        house.crew.engines[0].kill()
        await until(lambda: not held)
        await house.crew.reload()
        reloaded.set()
        await until(lambda: house.crew.restarts == 1)
        assert len(house.pids) == 2
        assert await answered(house, *PHRASES) == list(PHRASES.values())

    before = children()
    with opened({"tiny": tiny}, num_engines=2) as house:
        house.run(work(house))
        assert children() - before == set(house.pids)


def test_when_it_is_closed_what_is_in_work_is_finished_and_no_process_is_left(tiny: Path) -> None:
    async def work(house: House) -> None:
        asking = asyncio.create_task(answered(house, *PHRASES))
        await until(lambda: house.crew.engines[0].batches)
        await house.crew.close()
        assert await asking == list(PHRASES.values())
        assert not house.service.ready

    before = children()
    with opened({"tiny": tiny}) as house:
        house.run(work(house))
        assert children() == before
    assert house.told == []


def test_models_that_cannot_be_opened_are_said_before_anything_starts(tiny: Path, tmp_path: Path) -> None:
    before = children()
    with (
        pytest.raises(ValueError, match=r"nowhere: there is no such folder"),
        opened({"tiny": tiny, "other": tmp_path / "nowhere"}, num_engines=2),
    ):
        pass
    assert children() == before


def test_a_crew_without_engines_is_not_ready(idle: House) -> None:
    assert not idle.service.ready
    idle.crew.engines.append(Still())
    assert idle.service.ready
    idle.crew.engines[0].leaving = True
    assert not idle.service.ready
