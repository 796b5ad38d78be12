"""Long work on request: progress and result as server-sent events; the work stops when the client goes away."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

from pydantic import BaseModel

from dragoman.io.progress import Progress
from dragoman.studio.schemas import ErrorInfo, JobProgress


class JobStoppedError(Exception):
    """Raised inside work whose client went away."""


async def stream_job(work: Callable[[Progress], BaseModel], is_closing: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield the progress of `work`, which runs in a thread, and then its report or its error.

    After the iteration has ended, or when `is_closing` returns True, the next progress report stops the work.
    """
    loop, is_stopped = asyncio.get_running_loop(), threading.Event()
    queue = asyncio.Queue[JobProgress | None]()

    def on_progress(what: str, done: int, total: int | None = None, unit: str = "") -> None:  # noqa: ARG001
        if is_stopped.is_set() or is_closing():
            raise JobStoppedError
        loop.call_soon_threadsafe(queue.put_nowait, JobProgress(done=done, total=total or done))

    def run() -> BaseModel | None:
        try:
            return work(on_progress)
        except JobStoppedError:
            return None
        except (ValueError, OSError, RuntimeError) as error:
            return ErrorInfo(error=str(error))

    task = asyncio.ensure_future(asyncio.to_thread(run))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (progress := await queue.get()) is not None:
            yield _to_event("progress", progress)
        result = await task
        if result is not None:
            yield _to_event("error" if isinstance(result, ErrorInfo) else "report", result)
    finally:
        is_stopped.set()


def _to_event(name: str, data: BaseModel) -> str:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"
