"""An engine process, seen from the HTTP process: what it has in work, and what it answers."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.serving.facts import Facts
from dragoman.serving.piece import Piece, Wish
from dragoman.serving.wire import packed, received


class Orders(NamedTuple):
    """What every engine process is started with."""

    models: Mapping[str, Path]
    """Folders by name: nothing else is ever opened."""
    threads: int = 1
    compute: str = "float32"

    def text(self) -> str:
        """As an argument of the process."""
        return json.dumps({**self._asdict(), "models": {name: str(folder) for name, folder in self.models.items()}})


@dataclass(frozen=True, slots=True)
class Batch:
    """Pieces that an engine has, and since when."""

    pieces: list[Piece]
    since: float
    cost: int


Told = Callable[[Batch, list[dict[str, Any]], float], None]
"""What is called with the answers of a batch, and how long the engine was at it."""


class Engine:
    """Born by `started`; ends when it is told to, or dies."""

    def __init__(
        self, process: asyncio.subprocess.Process, connection: Any, facts: dict[str, Facts], alone: float
    ) -> None:
        self.process = process
        self.facts = facts
        self.alone = alone
        """Seconds for a sentence without company, of the slowest model."""
        self.batches: dict[int, Batch] = {}
        self.leaving = False
        """Whether it gets no more work: another takes its place."""
        self._reader, self._writer = connection
        self._last = 0.0
        self._count = 0

    @staticmethod
    async def started(orders: Orders) -> "Engine":
        """A process with every model open; ValueError, if one cannot be opened."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = ("-P", "-m", "dragoman.serving.engine_process", str(theirs.fileno()), orders.text())
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL, env=environment
            )
        connection = await asyncio.open_connection(sock=ours)
        try:
            first = await received(connection[0])
            if first is None:
                raise ValueError(f"an engine process ended with code {await process.wait()} before it was ready")
            if "failed" in first:
                raise ValueError(first["failed"])
        except BaseException:
            connection[1].close()
            await ended(process)
            raise
        facts = [Facts.model_validate(one) for one in first["ready"]]
        return Engine(process, connection, {one.name: one for one in facts}, first["alone"])

    def suits(self, wish: Wish) -> bool:
        """Whether it has the very model that is meant."""
        return not self.leaving and self.facts[wish.model].sha256 == wish.generation

    @property
    def cost(self) -> int:
        """Of all that it has in work."""
        return sum(batch.cost for batch in self.batches.values())

    @property
    def on_trial(self) -> bool:
        """Whether it has a sentence that another engine has died with: if that was to blame, nobody falls with it."""
        return any(batch.pieces[0].lost for batch in self.batches.values())

    def send(self, pieces: list[Piece], now: float) -> None:
        """Pieces of one wish, to be translated together."""
        self._count += 1
        texts = [piece.text for piece in pieces]
        self._writer.write(packed({"batch": self._count, "wish": pieces[0].wish, "texts": texts}))
        self.batches[self._count] = Batch(pieces, now, sum(piece.cost for piece in pieces))

    async def listen(self, told: Told) -> list[Piece]:
        """Hand on what it answers, until it is gone; gives the pieces that are lost with it."""
        clock = asyncio.get_running_loop().time
        while message := await received(self._reader):
            batch, now = self.batches.pop(message["batch"]), clock()
            told(batch, message["answers"], now - max(batch.since, self._last))
            self._last = now
        self._writer.close()
        lost = [piece for batch in self.batches.values() for piece in batch.pieces]
        self.batches.clear()
        return lost

    def oldest(self) -> float | None:
        """Since when it is at its oldest batch; each waits for the one before it."""
        return max(min(batch.since for batch in self.batches.values()), self._last) if self.batches else None

    def kill(self) -> None:
        """For one that does not answer any more."""
        if self.process.returncode is None:
            self.process.kill()

    async def leave(self) -> None:
        """Let it finish what it has, then close the socket, at which it ends."""
        self.leaving = True
        while self.batches:
            await asyncio.sleep(0.01)
        self._writer.close()
        await ended(self.process)


async def ended(process: asyncio.subprocess.Process, patience: float = 5.0) -> None:
    """Wait for a process that has no reason to go on; one that does all the same is killed."""
    try:
        await asyncio.wait_for(process.wait(), patience)
    except TimeoutError:
        process.kill()
        await process.wait()
