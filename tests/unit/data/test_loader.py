import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.batches import Batch, CorpusFiles, Reader
from dragoman.data.loader import PREFETCH, load_batches
from dragoman.data.order import BatchConfig, CorpusCells, EpochPlan, plan_order
from dragoman.data.shards import write_shard
from dragoman.io.durable import DamageError
from dragoman.text.ragged import Ragged

pytestmark = pytest.mark.slow


def rows(generator: np.random.Generator, num_rows: int) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum(generator.integers(2, 9, num_rows))])
    return Ragged(generator.integers(4, 100, offsets[-1], dtype=np.uint16), offsets)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    generator = np.random.default_rng(5)
    files = [tmp_path / f"{number}.arrow" for number in range(3)]
    shards = [write_shard(file, rows(generator, 60), rows(generator, 60), None, np.arange(60)) for file in files]
    cells = [info.cells for info in shards if info.cells is not None]
    order = plan_order([CorpusCells(cells)], BatchConfig(tokens=90), seed=8)
    return Reader(EpochPlan.of([(0, order)]), [CorpusFiles("little", tmp_path, tuple(shards))])


Batches = Generator[Batch, None, None]


def take(batches: Batches, count: int) -> list[int]:
    return [batch.index for batch in itertools.islice(batches, count)]


def workers() -> list[int]:
    return [process.pid or 0 for process in multiprocessing.active_children()]


class Here(list[int]):
    """Makes batches, and lists those that were made in this process: a worker gets the reader itself."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.reader.__reduce__()

    def __call__(self, index: int) -> Batch:
        self.append(index)
        return self.reader(index)

    def skip(self, batches: Batches) -> Batch:
        """Return the first batch that a worker has made."""
        end = time.monotonic() + 60
        while (batch := next(batches)).index in self:
            assert time.monotonic() < end
            time.sleep(0.01)
        return batch


def alike(one: Batch, other: Batch) -> bool:
    return (
        one.index == other.index
        and np.array_equal(one.lines, other.lines)
        and np.array_equal(one.source, other.source)
        and np.array_equal(one.target, other.target)
    )


def test_without_workers_this_process_makes_the_batches(reader: Reader) -> None:
    with closing(load_batches(reader, [5, 0, 7])) as batches:
        assert take(batches, 3) == [5, 0, 7]
        assert list(batches) == []
        assert not workers()


def test_workers_make_the_same_batches_in_the_same_order_to_the_last(reader: Reader) -> None:
    here = Here(reader)
    with closing(load_batches(here, range(3, 1000), num_workers=2)) as batches:
        first = here.skip(batches)
        num_here = len(here)
        rest = list(batches)
    assert [batch.index for batch in rest] == list(range(first.index + 1, 1000))
    assert all(alike(batch, reader(batch.index)) for batch in [first, *rest])
    assert len(here) == num_here
    assert not workers()


def test_workers_are_only_a_few_batches_ahead(reader: Reader) -> None:
    here, indices = Here(reader), itertools.count()
    with closing(load_batches(here, indices, num_workers=2)) as batches:
        first = here.skip(batches)
        assert next(indices) == first.index + 2 * PREFETCH + 1


def test_the_first_batches_do_not_wait_for_the_workers(reader: Reader) -> None:
    here = Here(reader)
    with closing(load_batches(here, itertools.count(), num_workers=1)) as batches:
        assert take(batches, 3) == [0, 1, 2] == here
        first = here.skip(batches)
        assert take(batches, 30) == list(range(first.index + 1, first.index + 31))


def test_a_worker_that_is_killed_is_an_error_and_not_a_wait(reader: Reader) -> None:
    here = Here(reader)
    with closing(load_batches(here, itertools.count(), num_workers=1)) as batches:
        here.skip(batches)
        os.kill(workers()[0], signal.SIGKILL)
        with pytest.raises(RuntimeError, match="a worker process died"):
            take(batches, 100)
        assert eventually(lambda: not workers())


def test_a_worker_that_dies_before_it_has_started_is_an_error(reader: Reader) -> None:
    with closing(load_batches(reader, itertools.count(), num_workers=1)) as batches:
        next(batches)
        os.kill(workers()[0], signal.SIGKILL)
        with pytest.raises(RuntimeError, match="a worker process died"):
            take(batches, 100_000)


def replace_by_damage(reader: Reader) -> None:
    """Put a new file under the old name: a process that has the old one open keeps it."""
    for info in reader.corpora[0].shards:
        file = reader.corpora[0].folder / info.file
        file.unlink()
        file.write_bytes(b"not a shard")


def test_a_damaged_file_is_named_with_the_batch(reader: Reader) -> None:
    replace_by_damage(reader)
    with closing(load_batches(reader, [7])) as batches, pytest.raises(DamageError, match=r"\.arrow") as caught:
        next(batches)
    assert caught.value.__notes__ == ["while reading batch 7"]


def test_a_damaged_file_that_a_worker_finds_is_named_with_the_batch(reader: Reader) -> None:
    for index in range(reader.plan.num_batches):
        reader(index)  # this process has all files open
    replace_by_damage(reader)
    here = Here(reader)
    with (
        closing(load_batches(here, itertools.count(), num_workers=1)) as batches,
        pytest.raises(DamageError, match=r"\.arrow") as caught,
    ):
        here.skip(batches)
    assert caught.value.__notes__ == [f"while reading batch {len(here)}"]
    assert not workers()


def interrupted(reader: Reader) -> None:
    with closing(load_batches(reader, itertools.count(), num_workers=2)) as batches:
        next(batches)
        raise KeyboardInterrupt


def test_leaving_early_ends_the_workers(reader: Reader) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(reader)
    assert not workers()


SCRIPT = """
import itertools, multiprocessing, pickle, sys, time
from contextlib import closing
from pathlib import Path
from dragoman.data.loader import load_batches

class Here(list):
    def __reduce__(self):
        return reader.__reduce__()

    def __call__(self, index):
        self.append(index)
        return reader(index)

if __name__ == "__main__":
    reader = pickle.loads(Path(sys.argv[1]).read_bytes())
    here = Here()
    with closing(load_batches(here, itertools.count(), num_workers=1)) as batches:
        while next(batches).index in here[-1:]:
            time.sleep(0.01)
        print(*(process.pid for process in multiprocessing.active_children()), flush=True)
        for batch in batches:
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


def test_a_negative_number_of_workers_is_refused(reader: Reader) -> None:
    with pytest.raises(ValueError, match="-1"):
        next(load_batches(reader, [], -1))
