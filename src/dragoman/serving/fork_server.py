"""The fork server as the HTTP process sees it: it has read all models, and forks engine processes from its memory."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from typing import Any

from dragoman.serving.config import ServiceConfig
from dragoman.serving.engine_protocol import MAX_LINE_BYTES, read_message


class ForkedProcess:
    """An engine process, which is a child of the fork server."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """The exit code; None while the process runs, or if the fork server ended before it."""
        self.has_ended = asyncio.Event()
        self.is_killed = False

    def end(self, code: int | None) -> None:
        """Note the exit code, or that nobody will report it."""
        self.returncode = code
        self.has_ended.set()

    def kill(self) -> None:
        """Kill the process if it is not known to have ended."""
        self.is_killed = True
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def suspend(self) -> None:
        """Stop the process until it is killed, so that it takes no time from others."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)

    async def wait(self) -> int | None:
        """Wait until the process has ended, and return its exit code, or None if it is unknown."""
        await self.has_ended.wait()
        return self.returncode


class ForkServer:
    """A process that has read all models, and forks an engine process on request."""

    def __init__(
        self, process: asyncio.subprocess.Process, control: socket.socket, streams: tuple[Any, asyncio.StreamWriter]
    ) -> None:
        self._process, self._control = process, control
        self._reader, self._writer = streams
        self._requested: deque[asyncio.Future[ForkedProcess]] = deque()
        self._running: dict[int, ForkedProcess] = {}
        self._task = asyncio.get_running_loop().create_task(self._read_reports())

    @staticmethod
    async def start(config: ServiceConfig) -> "ForkServer":
        """Start a fork server and wait until it has read the models; raise ValueError if a model cannot be opened."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = ("-P", "-m", "dragoman.serving.engine_process", str(theirs.fileno()), config.engine_argument())
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL, env=environment
            )
        control, writer = ours.dup(), None
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
            await read_ready(reader, process)
        except BaseException:
            control.close()
            (writer or ours).close()
            await wait_or_kill(process)
            raise
        return ForkServer(process, control, (reader, writer))

    @property
    def is_running(self) -> bool:
        """True until the fork server has ended, or is closed."""
        return not self._task.done()

    async def fork(self) -> tuple[ForkedProcess, socket.socket]:
        """Return a new engine process and the socket that is connected with it; raise OSError if that fails."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                if not self.is_running:
                    raise ConnectionError("the fork server has ended")
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
                requested = asyncio.get_running_loop().create_future()
                self._requested.append(requested)
                return await requested, ours
            except BaseException:
                ours.close()  # which ends the process
                raise

    async def close(self) -> None:
        """End the fork server; its engine processes go on."""
        self._writer.close()
        self._control.close()
        await wait_or_kill(self._process)
        await self._task

    async def _read_reports(self) -> None:
        while message := await read_message(self._reader):
            if "pid" in message:
                process = self._running[message["pid"]] = ForkedProcess(message["pid"])
                requested = self._requested.popleft()
                if not requested.done():
                    requested.set_result(process)
            else:
                self._running.pop(message["ended"]).end(message["code"])
        for requested in self._requested:
            if not requested.done():
                requested.set_exception(ConnectionError("the fork server has ended"))
        for process in self._running.values():
            process.end(None)


async def read_ready(
    reader: asyncio.StreamReader, process: asyncio.subprocess.Process | ForkedProcess
) -> dict[str, Any]:
    """Return the first message of a process; raise ValueError if it reports a failure, or has ended."""
    message = await read_message(reader)
    if message is None:
        raise ValueError(f"an engine process ended with code {await process.wait()} before it was ready")
    if "failed" in message:
        raise ValueError(message["failed"])
    return message


async def wait_or_kill(process: asyncio.subprocess.Process | ForkedProcess, seconds: float = 5.0) -> None:
    """Wait for a process to end; kill the process if it is still running after `seconds` seconds."""
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):  # it has ended in this moment
            process.kill()
        await process.wait()
