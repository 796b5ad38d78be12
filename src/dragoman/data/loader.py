"""The data loader: worker processes prefetch batches, which are yielded in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Final

from dragoman.data.batches import Batch
from dragoman.io.processes import worker_pool

Read = Callable[[int], Batch]
PREFETCH: Final = 4
"""Number of prefetched batches per worker."""


def load_batches(read: Read, indices: Iterable[int], num_workers: int = 0) -> Generator[Batch, None, None]:
    """Yield the batches with the given numbers, in order.

    This process reads the batches if `num_workers` is 0, and while the workers start, which takes about a second. Wrap
    the generator in `contextlib.closing`, which stops the workers.
    """
    if num_workers < 0:
        raise ValueError(f"num_workers {num_workers} is negative: give 0 or more")
    read = partial(_read, read)
    if num_workers == 0:
        yield from map(read, indices)
        return
    with worker_pool(read, num_workers) as submit:
        first: Future[Batch] | None = None
        pending: deque[Future[Batch]] = deque()
        for index in indices:
            first = first or submit(index)  # only to see when the workers have started
            if not first.done():
                yield read(index)
                continue
            pending.append(submit(index))
            if len(pending) > PREFETCH * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _read(read: Read, index: int) -> Batch:
    try:
        return read(index)
    except Exception as error:
        error.add_note(f"while reading batch {index}")
        raise
