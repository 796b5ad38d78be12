"""Workers that die are replaced, and what they were at is begun again, but not for ever."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.bulk.process_pool import run_in_pool
from dragoman.bulk.shard_manifest import BulkSettings
from dragoman.bulk.shard_worker import BulkJob

pytestmark = pytest.mark.slow


@pytest.fixture
def job(model: Path, tmp_path: Path, german_settings: Callable[[Path], BulkSettings]) -> BulkJob:
    (tmp_path / "out").mkdir()
    return BulkJob(model, tmp_path / "out", german_settings(model), threads=1)


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    for number, path in enumerate(paths, 1):
        path.write_text("ten old houses.\n" * number)
    return paths


@contextmanager
def deaths(count: int) -> Iterator[None]:
    """Kills the first workers as they appear."""
    over = threading.Event()

    def kill() -> None:
        seen: set[int | None] = set()
        while len(seen) < count and not over.is_set():
            for child in multiprocessing.active_children():
                if child.pid not in seen and len(seen) < count:
                    seen.add(child.pid)
                    child.kill()
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    over.set()
    thread.join()


def test_a_worker_that_dies_is_replaced_and_its_shard_is_done_again(job: BulkJob, shards: list[Path]) -> None:
    warnings: list[str] = []
    with deaths(2):
        outcomes = list(run_in_pool(job, shards, 1, warnings.append, lambda shard, rows: None))
    assert [(outcome.shard, outcome.rows, outcome.wrong) for outcome in outcomes] == [
        (shard, number, None) for number, shard in enumerate(shards, 1)
    ]
    death = f"a worker died at {shards[0]} (killed by SIGKILL): starting attempt"
    assert warnings == [f"{death} 2 of 3", f"{death} 3 of 3"]
    assert (job.out / "c.txt").read_text() == "zehn alte Häuser.\n" * 3
    assert multiprocessing.active_children() == []


def test_a_shard_that_three_workers_died_of_is_given_up_and_the_others_are_not(
    job: BulkJob, shards: list[Path]
) -> None:
    with deaths(3):
        outcomes = list(run_in_pool(job, shards, 1, lambda text: None, lambda shard, rows: None))
    assert [(outcome.shard, outcome.is_lost) for outcome in outcomes] == list(
        zip(shards, [True, False, False], strict=True)
    )
    assert outcomes[0].wrong == f"{shards[0]} killed 3 workers, the last killed by SIGKILL"
    assert (job.out / "b.txt").exists()
    assert not (job.out / "a.txt").exists()


def test_a_caller_that_stops_early_leaves_no_worker_behind(job: BulkJob, shards: list[Path]) -> None:
    outcomes = run_in_pool(job, shards, 2, lambda text: None, lambda shard, rows: None)
    next(outcomes)
    assert multiprocessing.active_children()
    outcomes.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
