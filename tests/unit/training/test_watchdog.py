"""A run that stands still is reported once, with what is known, and watching costs few opened files."""

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.training.parallel import Group
from dragoman.training.watchdog import Watchdog


class World:
    """So many processes in one: their watchdogs share a folder and a clock."""

    def __init__(self, folder: Path, world_size: int, per_host: int, timeout: float = 600.0) -> None:
        self.now, self.reports = 0.0, []  # type: tuple[float, list[tuple[int, int, str]]]
        (folder / ".marks").mkdir()
        self.watchdogs = [self.watchdog(folder, Group(rank, world_size, timeout=timeout)) for rank in range(world_size)]
        for rank, watchdog in enumerate(self.watchdogs):
            watchdog._mark = watchdog._mark._replace(host=f"host{rank // per_host}")
            watchdog._is_deputy = rank > 0 and (rank == 1 or rank % per_host == 0)

    def watchdog(self, folder: Path, group: Group) -> Watchdog:
        return Watchdog(
            folder, group, lambda update, text: self.reports.append((group.rank, update, text)), lambda: self.now
        )

    def pass_time(
        self, seconds: float, step: Callable[[int], Any] = lambda _: None, silent: tuple[int, ...] = ()
    ) -> None:
        for _ in range(int(seconds / 12)):
            self.now += 12
            for rank, watchdog in enumerate(self.watchdogs):
                if rank not in silent:
                    step(rank)
                    watchdog.check()


def test_a_world_that_waits_for_itself_is_reported_once_with_its_hosts(tmp_path: Path) -> None:
    world = World(tmp_path, 6, per_host=3)
    world.pass_time(240, lambda rank: world.watchdogs[rank].step(7, "computing gradients"))
    assert world.reports == []
    for watchdog in world.watchdogs:
        watchdog.step(8, "exchanging gradients")
    world.pass_time(300)
    ((speaker, update, message),) = world.reports
    assert (speaker, update) == (0, 8)
    assert "processes 0-2 on host0: exchanging gradients, update 8" in message
    assert "processes 3-5 on host1: exchanging gradients, update 8" in message
    assert "network between host0 and host1" in message
    assert "10m (--timeout)" in message


def test_a_process_that_the_others_wait_for_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, 5, per_host=5)
    for rank, watchdog in enumerate(world.watchdogs):
        watchdog.step(3, "reading batches" if rank == 2 else "waiting for the others")
    world.pass_time(180)
    ((_, _, message),) = world.reports
    assert "process 2 on host0: reading batches, update 3" in message
    assert "processes 0, 1, 3, 4 on host0: waiting for the others" in message
    assert "network" not in message


def test_one_process_that_makes_progress_is_enough(tmp_path: Path) -> None:
    world = World(tmp_path, 3, per_host=3)
    world.pass_time(600, lambda rank: world.watchdogs[rank].progress("", 1) if rank == 1 else None)
    assert world.reports == []


def test_a_second_stall_is_reported_again(tmp_path: Path) -> None:
    world = World(tmp_path, 2, per_host=2)
    world.pass_time(180)
    world.pass_time(36, lambda rank: world.watchdogs[rank].step(1, "reading batches"))
    world.pass_time(180)
    assert [rank for rank, _, _ in world.reports] == [0, 0]


def test_a_silent_host_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, 7, per_host=4)
    world.pass_time(36)
    world.pass_time(180, silent=(4, 5, 6))
    message = world.reports[-1][2]
    assert "no sign of processes 4-6 on host1" in message


def test_if_the_first_process_is_silent_every_host_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, 7, per_host=3)
    world.pass_time(36)
    world.pass_time(240, silent=(0,))
    assert [rank for rank, _, _ in world.reports] == [1, 3, 6]
    assert "process 0 has written no mark" in world.reports[1][2]


def test_no_process_of_512_opens_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, 512, per_host=8)
    world.pass_time(24)
    opened: Counter[int] = Counter()
    active, original = 0, io.open

    def count(*arguments: Any, **named: Any) -> Any:
        opened[active] += 1
        return original(*arguments, **named)

    monkeypatch.setattr(io, "open", count)
    for active, watchdog in enumerate(world.watchdogs):  # noqa: B007
        watchdog.check()
    assert max(opened.values()) <= 50  # at the first process: its mark, 23 marks, a file of marks, 23 such files
    assert sorted(opened.values())[400] <= 2
    for watchdog in world.watchdogs:
        watchdog.step(5, "validating")
    world.pass_time(180)
    assert [rank for rank, _, _ in world.reports] == [0]
    assert "processes 504-511 on host63: validating, update 5" in world.reports[0][2]


def test_a_process_alone_watches_nothing(tmp_path: Path) -> None:
    with Watchdog(tmp_path, Group(), lambda *_: None):
        assert list(tmp_path.iterdir()) == []


def test_the_thread_reports_and_leaves_no_file(tmp_path: Path) -> None:
    reports: list[str] = []
    with Watchdog(tmp_path, Group(0, 2, timeout=0.5), lambda _, message: reports.append(message)) as watchdog:
        watchdog.step(4, "reading batches")
        end = watchdog.clock() + 20
        while not reports and watchdog.clock() < end:
            pass
    assert "no sign of process 1" in reports[0]
    assert list(tmp_path.iterdir()) == []
