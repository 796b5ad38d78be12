"""A hang is noticed, and the process that is behind is named by one that is not."""

import time
from pathlib import Path

from dragoman.training.parallel import Group
from dragoman.training.watchdog import BEATS, Watchdog


def heard(folder: Path, rank: int, marks: list[tuple[int, int]], moves: bool = False) -> list[str]:
    """What the watchdog of this process says of such marks within four times its patience."""
    said: list[str] = []
    (folder / BEATS).mkdir(exist_ok=True)
    with Watchdog(folder, Group(rank, len(marks)), patience=0.2, say=said.append) as dog:
        for other, (update, stage) in enumerate(marks):
            if other == rank:
                dog.beat(update, stage)
            else:
                (folder / BEATS / str(other)).write_text(f"{update} {stage}")
        for number in range(16):
            time.sleep(0.05)
            if moves:
                dog.beat(100 + number, 1)
    return said


def test_the_one_that_is_behind_is_named(tmp_path: Path) -> None:
    said = heard(tmp_path, 0, [(7, 2), (7, 0), (7, 2)])
    assert said
    assert "process 1 is reading batches in update 7, and the others wait for it" in said[0]


def test_only_the_first_that_is_not_behind_speaks(tmp_path: Path) -> None:
    assert heard(tmp_path, 1, [(7, 2), (7, 0), (7, 2)]) == []
    assert heard(tmp_path, 2, [(7, 2), (7, 0), (7, 2)]) == []


def test_the_first_process_can_be_the_one(tmp_path: Path) -> None:
    assert "process 0 is computing gradients in update 9" in heard(tmp_path, 1, [(9, 1), (9, 2)])[0]


def test_where_nobody_is_behind_nothing_is_said(tmp_path: Path) -> None:
    assert heard(tmp_path, 0, [(7, 3), (7, 3)]) == []


def test_where_something_moves_nothing_is_said(tmp_path: Path) -> None:
    assert heard(tmp_path, 0, [(7, 2), (7, 0)], moves=True) == []


def test_alone_there_is_nobody_to_wait_for(tmp_path: Path) -> None:
    with Watchdog(tmp_path, Group()) as dog:
        dog.beat(3, 1)
    assert not (tmp_path / BEATS).exists()
