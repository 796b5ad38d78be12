"""Engine processes that die, hang or are exchanged under load. The model is tiny; the processes are real."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from service_harness import (
    OPTIONS,
    FakeEngine,
    ServiceHarness,
    model_info,
    open_harness,
    queue_sentence,
    run_with_fake_clock,
    until,
    write_model,
)

from dragoman.serving.config import ServiceConfig
from dragoman.serving.engine_pool import ABANDONED_SECONDS, EngineHandle
from dragoman.serving.errors import OverloadedError, TranslationFailedError
from dragoman.serving.fork_server import ForkServer, wait_or_kill

pytestmark = pytest.mark.slow

PHRASES = {
    "two red dogs.": "zwei rote Hunde.",
    "ten old houses.": "zehn alte Häuser.",
    "four green women.": "vier grüne Frauen.",
}
POISON = "ten old houses and three red tables and four green dogs " * 12


def children() -> set[int]:
    """The fork servers and engine processes that this one has."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"engine_process" in (entry / "cmdline").read_bytes():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    return {pid for pid, parent in parents.items() if os.getpid() in (parent, parents.get(parent))}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def freeze(engine: EngineHandle) -> None:
    """Stop an engine, so that it keeps its batches."""
    os.kill(engine.process.pid, signal.SIGSTOP)


async def answered(harness: ServiceHarness, *texts: str) -> list[str]:
    found = await harness.service.translate(texts, harness.options(), request_id="shop-1")
    return [one.text() for one in found]


def replace(folder: Path, by: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def damage(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def test_a_killed_engine_is_replaced_and_its_sentences_are_answered(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        asking = asyncio.create_task(answered(harness, *PHRASES))
        await until(lambda: engine.batches)
        os.kill(parent_of(engine.process.pid), signal.SIGSTOP)
        os.kill(engine.process.pid, signal.SIGKILL)
        await until(lambda: not harness.pool.engines)
        assert not harness.service.is_ready
        with pytest.raises(OverloadedError, match="no engine is ready yet"):
            await answered(harness, "two red dogs.")
        os.kill(parent_of(engine.process.pid), signal.SIGCONT)
        assert await asking == list(PHRASES.values())
        assert harness.service.is_ready
        assert harness.pool.engines[0] is not engine

    with open_harness({"tiny": tiny}) as harness:
        harness.run(work(harness))
        assert harness.events == [
            {"event": "engine lost", "level": "warning", "code": -9, "pieces": 3, "requests": ["shop-1"]},
            {"event": "engine started", "level": "info", "restarts": 1},
        ]
        assert harness.metrics.registry.get_sample_value("dragoman_engine_restarts_total") == 1.0


def test_with_two_engines_every_request_is_answered_when_one_dies(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        for engine in list(harness.pool.engines):
            asking = [asyncio.create_task(answered(harness, phrase)) for phrase in PHRASES for _ in range(4)]
            await asyncio.sleep(0)
            engine.kill()
            assert await asyncio.gather(*asking) == [[PHRASES[phrase]] for phrase in PHRASES for _ in range(4)]
            assert harness.service.is_ready
        await until(lambda: harness.pool.restarts == 2)

    with open_harness({"tiny": tiny}, num_engines=2) as harness:
        harness.run(work(harness))
        assert len(set(harness.pids)) == 2


async def kill_engines_with(harness: ServiceHarness, text: str) -> None:
    """Kill every engine that gets this text."""
    while True:
        for engine in harness.pool.engines:
            if any(one.text == text for batch in engine.batches.values() for one in batch.sentences):
                engine.kill()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("batch_tokens", [768, 1])
def test_a_sentence_that_kills_engines_is_given_up_and_its_neighbours_get_their_answers(
    tiny: Path, batch_tokens: int
) -> None:
    """With one token a batch, a busy engine would take more work at once: it must not, while it tries the sentence."""

    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        poison = asyncio.create_task(harness.service.translate([POISON], harness.options(), split=False))
        neighbours = [asyncio.create_task(answered(harness, phrase)) for phrase in PHRASES]
        hunting = asyncio.create_task(kill_engines_with(harness, POISON))
        with pytest.raises(TranslationFailedError, match="two engines died"):
            await poison
        hunting.cancel()
        assert await asyncio.gather(*neighbours) == [[phrase] for phrase in PHRASES.values()]

    with open_harness({"tiny": tiny}, batch_tokens=batch_tokens) as harness:
        harness.run(work(harness))
        assert harness.pool.restarts >= 2


def test_an_engine_that_does_not_answer_is_replaced(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        assert await answered(harness, "two red dogs.") == ["zwei rote Hunde."]
        assert engine.process.returncode == -signal.SIGKILL

    with open_harness({"tiny": tiny}, engine_seconds=5.0) as harness:
        harness.run(work(harness))
        event = {"event": "engine does not answer", "level": "error", "seconds": 5.0, "requests": ["shop-1"]}
        assert [line for line in harness.events if line["event"] == event["event"]] == [event]


def test_a_reload_opens_the_models_again_without_rejecting_requests(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        before, facts = set(harness.pids), harness.service.models
        reloading = asyncio.create_task(harness.pool.reload())
        while not reloading.done():
            assert await answered(harness, *PHRASES) == list(PHRASES.values())
        await reloading
        await until(lambda: len(harness.pids) == 2)
        assert before.isdisjoint(harness.pids)
        assert harness.service.models == facts
        assert before.isdisjoint(children())

    with open_harness({"tiny": tiny}, num_engines=2) as harness:
        harness.run(work(harness))
        assert harness.events == []


def test_requests_before_a_reload_get_the_old_model_and_later_ones_the_new(folder: Path, other: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,), old = harness.pool.engines, harness.options()
        freeze(engine)
        before = [asyncio.create_task(answered(harness, phrase)) for phrase in PHRASES]  # two in work, one in the queue
        await until(lambda: len(engine.batches) == 2 and harness.dispatcher.queue.length == 1)
        replace(folder, other)
        reloading = asyncio.create_task(harness.pool.reload())
        await until(lambda: harness.options() != old)
        assert await answered(harness, *PHRASES) == list(PHRASES.values())
        assert not any(task.done() for task in before)
        os.kill(engine.process.pid, signal.SIGCONT)
        assert await asyncio.gather(*before) == [[phrase] for phrase in PHRASES.values()]
        await reloading
        assert engine.process.returncode is not None
        await until(lambda: len(harness.pids) == 1)

    with open_harness({"tiny": folder}, batch_tokens=1) as harness:
        harness.run(work(harness))
        assert harness.service.models["tiny"].title == "the other"


def test_a_reload_of_a_damaged_folder_leaves_the_old_model_serving(folder: Path) -> None:
    with open_harness({"tiny": folder}, num_engines=2) as harness:
        before, facts = harness.pids, harness.service.models
        damage(folder)
        with pytest.raises(ValueError, match=r"model\.safetensors: the file has"):
            harness.run(harness.pool.reload())
        shutil.rmtree(folder)
        with pytest.raises(ValueError, match="there is no such folder"):
            harness.run(harness.pool.reload())
        assert (harness.pids, harness.service.models) == (before, facts)
        assert harness.translate(*PHRASES) == list(PHRASES.values())


def test_a_reload_in_which_one_engine_fails_leaves_no_new_engine(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = EngineHandle.start, 0

    async def started(server: ForkServer) -> EngineHandle:
        nonlocal count
        count += 1
        if count == 2:
            raise ValueError("no room for a second")
        return await real(server)

    with open_harness({"tiny": tiny}, num_engines=3) as harness:
        before, there = harness.pids, children()
        monkeypatch.setattr(EngineHandle, "start", started)
        with pytest.raises(ValueError, match="no room for a second"):
            harness.run(harness.pool.reload())
        assert count == 3
        assert harness.pids == before
        assert children() == there


def test_a_model_staged_in_the_folder_goes_live_only_by_a_reload(folder: Path, other: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        old = harness.options()
        replace(folder, other)
        for restarts in (1, 2):
            harness.pool.engines[0].kill()
            await until(lambda number=restarts: harness.pool.restarts == number)
        assert harness.options() == old
        assert await answered(harness, *PHRASES) == list(PHRASES.values())
        assert harness.pool.num_changed == 0
        await harness.pool.reload()
        assert harness.options() != old
        (event,) = [line for line in harness.events if line["event"] == "model changed"]
        assert (event["before"], event["after"]) == (old.sha256, harness.options().sha256)
        assert harness.metrics.registry.get_sample_value("dragoman_model_changes_total") == 1.0

    with open_harness({"tiny": folder}) as harness:
        harness.run(work(harness))
        assert harness.service.models["tiny"].title == "the other"


def test_without_its_fork_server_a_service_waits_until_the_folder_has_its_model_again(
    folder: Path, tiny: Path, other: Path
) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        os.kill(parent_of(engine.process.pid), signal.SIGKILL)
        assert await answered(harness, *PHRASES) == list(PHRASES.values())
        replace(folder, other)
        engine.kill()
        await until(lambda: len(harness.events) >= 2)
        assert [line["event"] for line in harness.events[:2]] == ["engine lost", "engine not started"]
        assert "SIGHUP" in harness.events[1]["reason"]
        damage(folder)
        await until(lambda: len(harness.events) >= 4)
        assert "model.safetensors: the file has" in harness.events[3]["reason"]
        assert not harness.service.is_ready
        replace(folder, tiny)
        await until(lambda: harness.service.is_ready)
        assert await answered(harness, *PHRASES) == list(PHRASES.values())

    before = children()
    with open_harness({"tiny": folder}) as harness:
        harness.run(work(harness))
    assert children() == before


def test_work_that_nobody_awaits_is_stopped_and_the_work_behind_it_goes_on(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)  # a search that never ends
        abandoned = asyncio.create_task(answered(harness, "two red dogs."))
        await until(lambda: engine.batches)
        awaited = [asyncio.create_task(answered(harness, phrase)) for phrase in PHRASES]
        await until(lambda: len(engine.batches) == 2)
        abandoned.cancel()
        assert await asyncio.gather(*awaited) == [[phrase] for phrase in PHRASES.values()]
        assert engine.process.returncode == -signal.SIGKILL
        assert harness.service.is_ready
        assert await answered(harness, *PHRASES) == list(PHRASES.values())
        assert (harness.pool.restarts, harness.pool.num_cancelled) == (0, 1)

    before = children()
    with open_harness({"tiny": tiny}, batch_tokens=1) as harness:
        harness.run(work(harness))
        assert [line["event"] for line in harness.events] == ["work cancelled"]
    assert children() == before


def test_work_whose_time_is_over_is_stopped(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        with pytest.raises(OverloadedError, match="timeout"):
            await answered(harness, "two red dogs.")
        try:
            await until(lambda: harness.pool.num_cancelled, 30)
            assert harness.service.is_ready
        finally:
            engine.kill()  # or closing would wait for it

    with open_harness({"tiny": tiny}, seconds=0.5) as harness:
        harness.run(work(harness))
        (event,) = harness.events
        assert (event["event"], event["requests"]) == ("work cancelled", ["shop-1"])


def test_a_service_is_ready_while_an_engine_is_freed(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        abandoned = asyncio.create_task(answered(harness, "two red dogs."))
        await until(lambda: engine.batches)
        abandoned.cancel()
        while not harness.pool.num_cancelled:
            assert harness.service.is_ready
            await asyncio.sleep(0.001)
        assert harness.service.is_ready

    with open_harness({"tiny": tiny}) as harness:
        harness.run(work(harness))


def test_a_batch_that_somebody_awaits_is_not_stopped(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        (engine,) = harness.pool.engines
        freeze(engine)
        asking = [asyncio.create_task(answered(harness, phrase)) for phrase in PHRASES]
        await until(lambda: engine.batches)
        for task in asking[1:]:
            task.cancel()
        await asyncio.sleep(4 * ABANDONED_SECONDS)
        os.kill(engine.process.pid, signal.SIGCONT)
        assert await asking[0] == [next(iter(PHRASES.values()))]
        assert harness.pool.engines == [engine]

    with open_harness({"tiny": tiny}) as harness:
        harness.run(work(harness))


def test_a_reload_while_a_dead_engine_is_replaced_leaves_as_many_as_wanted(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reloaded = EngineHandle.start, asyncio.Event()
    held = [reloaded]

    async def started(server: ForkServer) -> EngineHandle:
        """The first of them, which is to replace the dead one, takes its time."""
        if held:
            await held.pop().wait()
        return await real(server)

    async def work(harness: ServiceHarness) -> None:
        monkeypatch.setattr(EngineHandle, "start", started)
        harness.pool.engines[0].kill()
        await until(lambda: not held)
        await harness.pool.reload()
        reloaded.set()
        await until(lambda: harness.pool.restarts == 1)
        assert len(harness.pids) == 2
        assert await answered(harness, *PHRASES) == list(PHRASES.values())

    before = children()
    with open_harness({"tiny": tiny}, num_engines=2) as harness:
        harness.run(work(harness))
        assert set(harness.pids) < children() - before
        assert len(children() - before) == 1 + len(harness.pids)


def test_closing_during_a_reload_leaves_no_process(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, num_started = EngineHandle.start, 0

    async def started(server: ForkServer) -> EngineHandle:
        """Start the first engine, and keep the reload waiting for the second."""
        nonlocal num_started
        if num_started == 1:
            await asyncio.Event().wait()
        engine = await real(server)
        num_started += 1
        return engine

    async def work(harness: ServiceHarness) -> None:
        monkeypatch.setattr(EngineHandle, "start", started)
        harness.pool.create_task(harness.pool.reload())
        await until(lambda: num_started == 1)
        await harness.pool.close()

    before = children()
    with open_harness({"tiny": tiny}, num_engines=2) as harness:
        harness.run(work(harness))
        assert children() == before


def test_closing_finishes_all_batches_and_leaves_no_process(tiny: Path) -> None:
    async def work(harness: ServiceHarness) -> None:
        asking = asyncio.create_task(answered(harness, *PHRASES))
        await until(lambda: harness.pool.engines[0].batches)
        await harness.pool.close()
        assert await asking == list(PHRASES.values())
        assert not harness.service.is_ready

    before = children()
    with open_harness({"tiny": tiny}) as harness:
        harness.run(work(harness))
        assert children() == before
    assert harness.events == []


def test_models_that_cannot_be_opened_are_an_error_at_start(tiny: Path, tmp_path: Path) -> None:
    before = children()
    with (
        pytest.raises(ValueError, match=r"nowhere: there is no such folder"),
        open_harness({"tiny": tiny, "other": tmp_path / "nowhere"}, num_engines=2),
    ):
        pass
    assert children() == before


def test_a_model_with_another_stop_rule_is_served_by_count_with_one_warning(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "safe", "stops safely", stop="safe")
    with open_harness({"safe": folder}, num_engines=2) as harness:
        assert harness.translate(*PHRASES) == list(PHRASES.values())
        (event,) = harness.events
        assert (event["event"], event["level"]) == ("model warning", "warning")
        assert str(folder) in event["reason"]


def test_a_pool_without_engines_is_not_ready(idle: ServiceHarness) -> None:
    assert not idle.service.is_ready
    idle.pool.engines.append(FakeEngine())
    assert idle.service.is_ready
    idle.pool.engines[0].is_leaving = True
    assert not idle.service.is_ready


def test_an_engine_knows_its_work_and_since_when() -> None:
    async def work() -> None:
        engine, loop = FakeEngine(), asyncio.get_running_loop()
        assert (engine.cost, engine.busy_since(), engine.is_on_trial) == (0, None, False)
        engine.send([queue_sentence("a", 1.0, loop, cost=3), queue_sentence("b", 2.0, loop, cost=4)], 5.0)
        lost = queue_sentence("c", 1.0, loop, cost=5)
        lost.num_lost = 1
        engine.send([lost], 6.0)
        assert (engine.cost, engine.busy_since(), engine.is_on_trial) == (12, 5.0, True)
        engine.batches.pop(1)
        assert engine.busy_since() == 6.0
        engine.answered_at = 8.0  # a batch waits for the one before it
        assert engine.busy_since() == 8.0

    run_with_fake_clock(work)


def test_an_engine_suits_options_for_exactly_its_model_unless_it_leaves() -> None:
    engine = FakeEngine(model_info("1" * 64))
    assert not engine.suits(OPTIONS)
    assert engine.suits(OPTIONS._replace(sha256="1" * 64))
    engine.is_leaving = True
    assert not engine.suits(OPTIONS._replace(sha256="1" * 64))


def test_a_batch_that_cannot_be_sent_is_not_counted() -> None:
    async def work() -> None:
        engine = FakeEngine()
        with pytest.raises(UnicodeEncodeError):
            engine.send([queue_sentence("half \ud800", 1.0, asyncio.get_running_loop(), cost=3)], 5.0)
        assert engine.batches == {}

    run_with_fake_clock(work)


@pytest.mark.slow
def test_an_engine_that_ends_before_it_is_ready_is_reported_with_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ValueError, match="an engine process ended with code 1 before it was ready"):
        asyncio.run(ForkServer.start(ServiceConfig({"a": tmp_path})))


@pytest.mark.slow
def test_a_process_that_does_not_end_is_killed() -> None:
    async def work() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "600")
        await wait_or_kill(process, seconds=0.1)
        assert process.returncode == -9

    asyncio.run(work())
