import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.batches import Batch, CorpusFiles, Reader
from dragoman.data.course import Course
from dragoman.data.loader import Loader
from dragoman.data.order import BatchConfig, CorpusCells, plan
from dragoman.data.ragged import Ragged
from dragoman.data.shards import write_shard


def rows(generator: np.random.Generator, num_rows: int) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum(generator.integers(2, 9, num_rows))])
    return Ragged(generator.integers(4, 100, offsets[-1], dtype=np.uint16), offsets)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    generator = np.random.default_rng(5)
    files = [tmp_path / f"{number}.arrow" for number in range(3)]
    shards = [write_shard(file, rows(generator, 60), rows(generator, 60), None, np.arange(60)) for file in files]
    cells = [np.array(info.cells, np.int64) for info in shards]
    order = plan([CorpusCells(cells)], BatchConfig(tokens=90), seed=8)
    return Reader(Course.of([(0, order)]), [CorpusFiles("little", tuple(files))])


def until_awake(loader: Loader) -> None:
    """Waits until this process no longer makes the batches itself."""
    begin = time.monotonic()
    while loader._asleep:
        assert time.monotonic() < begin + 60
        loader._wake()
        time.sleep(0.01)


def take(loader: Loader, count: int) -> list[int]:
    return [batch.index for batch in itertools.islice(loader, count)]


def no_workers_left() -> bool:
    return multiprocessing.active_children() == []


def alike(one: Batch, other: Batch) -> bool:
    return (
        one.index == other.index
        and np.array_equal(one.lines, other.lines)
        and np.array_equal(one.source, other.source)
        and np.array_equal(one.target, other.target)
    )


def test_without_workers_this_process_makes_the_batches(reader: Reader) -> None:
    with Loader(reader, [5, 0, 7], num_workers=0) as loader:
        assert [batch.index for batch in loader] == [5, 0, 7]
        assert list(loader) == []
    assert no_workers_left()


def test_workers_make_the_same_batches_in_the_same_order_to_the_last(reader: Reader) -> None:
    with Loader(reader, range(3, 53), num_workers=2, prefetch=3) as loader:
        until_awake(loader)
        assert alike(next(loader), reader(3))
        assert len(loader._awaited) == 5  # what was asked for, less what has come
        assert len({worker.process.pid for _, worker in loader._awaited}) == 2
        rest = list(loader)
        assert all(alike(batch, reader(index)) for batch, index in zip(rest, range(4, 53), strict=True))
        with pytest.raises(StopIteration):
            next(loader)
    assert no_workers_left()


def test_nobody_waits_for_workers_to_wake_up(reader: Reader) -> None:
    """A worker takes a good part of a second to start; this process makes its first batches in the meantime."""
    with Loader(reader, itertools.count(), num_workers=1) as loader:
        assert take(loader, 3) == [0, 1, 2]
        assert loader._asleep
        until_awake(loader)
        assert take(loader, 30) == list(range(3, 33))
        assert loader._awaited


def test_a_worker_that_is_killed_is_an_error_and_not_a_wait(reader: Reader) -> None:
    with Loader(reader, itertools.count(), num_workers=1) as loader:
        until_awake(loader)
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"data worker \d .* died before batch \d+: killed by SIGKILL"):
            take(loader, 100)
        assert no_workers_left()
        with pytest.raises(ValueError, match="make a new one that starts where this one stopped"):
            next(loader)


def test_a_worker_that_is_killed_in_the_middle_of_a_batch_is_an_error_too(tmp_path: Path) -> None:
    """A batch of a megabyte is more than a pipe holds, so the worker stands still until it is read."""
    generator = np.random.default_rng(5)
    info = write_shard(tmp_path / "0.arrow", rows(generator, 20_000), rows(generator, 20_000), None, np.arange(20_000))
    cells = [CorpusCells([np.array(info.cells, np.int64)])]
    order = plan(cells, BatchConfig(tokens=10**6), seed=8)
    reader = Reader(Course.of([(0, order)]), [CorpusFiles("wide", (tmp_path / "0.arrow",))])
    with Loader(reader, itertools.count(), 1) as loader:
        until_awake(loader)
        loader._ask()
        assert loader._awake[0].pipe.poll(30)
        os.kill(loader._awake[0].process.pid or 0, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="died before batch 0: killed by SIGKILL"):
            next(loader)


def test_a_worker_that_dies_before_it_is_awake_is_an_error(reader: Reader) -> None:
    with Loader(reader, itertools.count(), num_workers=1) as loader:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        assert eventually(no_workers_left)
        with pytest.raises(RuntimeError, match="died before its first batch: killed by SIGKILL"):
            take(loader, 100)
    assert no_workers_left()


def replace_by_damage(reader: Reader) -> None:
    """A new file under the old name: whoever has the old one open keeps it."""
    for file in reader.corpora[0].shards:
        file.unlink()
        file.write_bytes(b"not a shard")


def test_a_damaged_file_is_named_with_the_batch(reader: Reader) -> None:
    replace_by_damage(reader)
    with Loader(reader, [7], num_workers=0) as loader, pytest.raises(ValueError, match=r"\.arrow") as caught:
        next(loader)
    assert caught.value.__notes__ == ["while batch 7 was made"]


def test_a_damaged_file_that_a_worker_finds_is_named_with_the_batch(reader: Reader) -> None:
    for index in range(reader.course.num_batches):
        reader(index)
    replace_by_damage(reader)
    with Loader(reader, itertools.count(), num_workers=1) as loader:
        until_awake(loader)
        with pytest.raises(ValueError, match=r"batch 0: DamageError: .*\.arrow"):
            next(loader)
    assert no_workers_left()


def interrupted(reader: Reader) -> None:
    with Loader(reader, itertools.count(), num_workers=2) as loader:
        next(loader)
        raise KeyboardInterrupt


def test_leaving_early_ends_the_workers_at_once(reader: Reader) -> None:
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted(reader)
    assert no_workers_left()
    assert time.monotonic() - begin < 5.0


SCRIPT = """
import itertools, pickle, sys, time
from pathlib import Path
from dragoman.data.course import Course
from dragoman.data.loader import Loader

if __name__ == "__main__":
    reader = pickle.loads(Path(sys.argv[1]).read_bytes())
    with Loader(reader, itertools.count(), num_workers=1) as loader:
        while loader._asleep:
            loader._wake()
        print(*(worker.process.pid for worker in loader._awake), flush=True)
        for batch in loader:
            time.sleep(0.01)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_a_parent_that_is_interrupted_or_killed(
    reader: Reader, tmp_path: Path, end: signal.Signals
) -> None:
    (tmp_path / "reader").write_bytes(pickle.dumps(reader))
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "reader")]
    pipe = subprocess.PIPE
    parent = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 1
    # The terminal sends an interrupt to the whole group; a kill hits the parent alone.
    if end == signal.SIGINT:
        os.killpg(parent.pid, end)
    else:
        parent.kill()
    _, errors = parent.communicate(timeout=30)
    assert errors.count("Traceback") == (1 if end == signal.SIGINT else 0), errors
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def eventually(condition: Callable[[], bool]) -> bool:
    begin = time.monotonic()
    while not condition() and time.monotonic() < begin + 20:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize(("num_workers", "prefetch"), [(-1, 4), (2, 0)])
def test_numbers_that_make_no_sense_are_refused(reader: Reader, num_workers: int, prefetch: int) -> None:
    with pytest.raises(ValueError, match="0 or more workers and 1 or more batches ahead"):
        Loader(reader, [], num_workers, prefetch)
