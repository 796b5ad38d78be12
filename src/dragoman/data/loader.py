"""Batches made ahead of time by worker processes, and handed over in the order they were asked for."""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType

from dragoman.data.batches import Batch

Read = Callable[[int], Batch]

JOIN_SECONDS = 10.0


@dataclass(frozen=True)
class _Failure:
    """What went wrong in a worker, in words: not every exception survives pickling."""

    message: str
    is_value_error: bool


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection


class Loader(Iterator[Batch]):
    """The batches of these numbers, in this order, whatever the number of workers.

    Workers are spawned, never forked: a fork copies the locks that other threads hold. Until they are awake, which
    takes them a second, and if there are none, this process makes the batches itself. Each worker has a pipe of its
    own, so that one that dies cannot block another, and is never more than `prefetch` batches ahead. Use it in a `with`
    statement, which ends the workers.
    """

    def __init__(self, read: Read, indices: Iterable[int], num_workers: int = 2, prefetch: int = 4) -> None:
        if num_workers < 0 or prefetch < 1:
            raise ValueError(f"a loader needs 0 or more workers and 1 or more batches ahead: {num_workers}, {prefetch}")
        self._read = read
        self._indices = iter(indices)
        self._prefetch = prefetch
        self._asleep: list[_Worker] = []
        self._awake: list[_Worker] = []
        self._awaited: deque[tuple[int, _Worker]] = deque()
        self._num_asked = 0
        self._closed = False
        try:
            self._start(num_workers)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> Batch:
        if self._closed:
            raise ValueError("this loader is closed: make a new one that starts where this one stopped")
        try:
            self._wake()
            self._ask()
            if not self._awaited:
                return self._make(next(self._indices))
            index, worker = self._awaited.popleft()
            return _received(worker, index)
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers at once: they hold nothing that is worth saving."""
        self._closed = True
        workers = self._awake + self._asleep
        self._awake, self._asleep = [], []
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join(JOIN_SECONDS)
            worker.pipe.close()

    def _start(self, num_workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        for number in range(num_workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), name=f"data worker {number}", daemon=True)
            self._asleep.append(_Worker(process, ours))
            process.start()
            theirs.close()  # with a copy of its end here, the worker's death would not close the pipe

    def _wake(self) -> None:
        """What a worker needs is sent when it says that it listens: a pipe holds little, and more must wait."""
        for worker in list(self._asleep):
            if not worker.process.is_alive():
                raise _death(worker, "before its first batch")
            if worker.pipe.poll():
                try:
                    worker.pipe.recv()
                    worker.pipe.send_bytes(pickle.dumps(self._read))
                except (EOFError, ConnectionError) as error:
                    raise _death(worker, "before its first batch") from error
                self._asleep.remove(worker)
                self._awake.append(worker)

    def _ask(self) -> None:
        while len(self._awaited) < self._prefetch * len(self._awake):
            index = next(self._indices, None)
            if index is None:
                return
            worker = self._awake[self._num_asked % len(self._awake)]
            with suppress(ConnectionError):  # the batches it made before it died are still good; death is told later
                worker.pipe.send(index)
            self._awaited.append((index, worker))
            self._num_asked += 1

    def _make(self, index: int) -> Batch:
        try:
            return self._read(index)
        except Exception as error:
            error.add_note(f"while batch {index} was made")
            raise


def _received(worker: _Worker, index: int) -> Batch:
    wait([worker.pipe, worker.process.sentinel])
    try:
        answer = worker.pipe.recv() if worker.pipe.poll() else None
    except (EOFError, ConnectionError):
        answer = None
    if answer is None:
        raise _death(worker, f"before batch {index}")
    if isinstance(answer, _Failure):
        raise (ValueError if answer.is_value_error else RuntimeError)(answer.message)
    assert isinstance(answer, Batch)
    assert answer.index == index
    return answer


def _death(worker: _Worker, when: str) -> RuntimeError:
    worker.process.join(JOIN_SECONDS)
    code = worker.process.exitcode
    how = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
    return RuntimeError(
        f"{worker.process.name} (process {worker.process.pid}) died {when}: {how}. If memory ran out, use fewer "
        "workers; a script that starts workers must do so under `if __name__ == '__main__'`"
    )


def _work(pipe: Connection) -> None:
    """The life of a worker: until its pipe is closed, because the parent is done or dead."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    with suppress(EOFError, ConnectionError):
        pipe.send("awake")
        read: Read = pickle.loads(pipe.recv_bytes())
        while True:
            pipe.send(_attempt(read, pipe.recv()))


def _attempt(read: Read, index: int) -> Batch | _Failure:
    try:
        return read(index)
    except Exception as error:
        return _Failure(f"batch {index}: {type(error).__name__}: {error}", isinstance(error, ValueError))
