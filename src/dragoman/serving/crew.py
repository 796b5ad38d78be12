"""The engine processes: started, watched, replaced when one dies, and exchanged as a whole when models are reloaded."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from dragoman.serving.engine import Engine, Orders, Told
from dragoman.serving.facts import Facts
from dragoman.serving.piece import Piece

LOOK_S: Final = 0.5
"""How often engines are looked after that have not answered."""
LONGEST_PAUSE_S: Final = 10.0
"""Between two attempts to start one that does not come up: each attempt costs the others time."""

Say = Callable[..., None]
"""An event and what is to be known of it, for the log."""


class Ears(NamedTuple):
    """Who is told what."""

    told: Told
    """Of answers."""
    lost: Callable[[list[Piece]], None]
    """Of pieces whose engine has died."""
    wanted: Callable[[Engine], bool]
    """Asked whether somebody waits for this engine's very models."""
    joined: Callable[[], None]
    """That there are new engines."""
    say: Say
    """Of what the log should know."""


class Crew:
    """As many engines as wanted, whatever happens to them."""

    def __init__(self, orders: Orders, size: int, patience: float, ears: Ears) -> None:
        self.orders = orders
        self.size = size
        self.engines: list[Engine] = []
        """Those that take work, or are still at it."""
        self.facts: dict[str, Facts] = {}
        """The models, as new requests get them."""
        self.restarts = 0
        self._patience = patience
        self._ears = ears
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._reloading = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether anybody works."""
        return not self._closing and bool(self.working)

    @property
    def working(self) -> list[Engine]:
        """Those that take work."""
        return [engine for engine in self.engines if not engine.leaving]

    async def start(self) -> None:
        """All of them; ValueError, if the models cannot be opened."""
        self._join(await self._new_ones())
        self._task(self._look_after())

    async def reload(self) -> None:
        """Open the models anew in new engines, and only then let the old ones go. ValueError leaves all as it was."""
        async with self._reloading:
            new = await self._new_ones()
            old = self.working
            self._join(new)
            await asyncio.gather(*(self._let_go(engine) for engine in old))

    async def close(self) -> None:
        """Let all finish and go."""
        self._closing = True
        await asyncio.gather(*(engine.leave() for engine in self.engines))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _new_ones(self) -> list[Engine]:
        """The first alone: if a model is damaged, that is said once, and no other is troubled."""
        new = [await Engine.started(self.orders)]
        others = (Engine.started(self.orders) for _ in range(self.size - 1))
        started = await asyncio.gather(*others, return_exceptions=True)
        new += [one for one in started if isinstance(one, Engine)]
        if len(new) == self.size and all(engine.facts == new[0].facts for engine in new):
            return new
        await asyncio.gather(*(engine.leave() for engine in new))  # all of them, or none
        failed = [one for one in started if isinstance(one, BaseException)]
        raise failed[0] if failed else ValueError("the models were replaced while they were opened: reload again")

    def _join(self, engines: list[Engine]) -> None:
        self.engines += engines
        self.facts = engines[0].facts
        for engine in engines:
            self._task(self._watch(engine))
        self._ears.joined()

    async def _let_go(self, engine: Engine) -> None:
        """Once nobody waits any more for the very models it has."""
        while engine in self.engines and self._ears.wanted(engine):
            await asyncio.sleep(0.01)
        await engine.leave()

    async def _watch(self, engine: Engine) -> None:
        lost = await engine.listen(self._ears.told)
        self.engines.remove(engine)
        code = await engine.process.wait()
        if not engine.leaving and not self._closing:
            self._ears.say("engine lost", level="warning", code=code, pieces=len(lost))
            self._task(self._replace())
        self._ears.lost(lost)

    async def _replace(self) -> None:
        """Start another, and again, ever more slowly, until one comes up."""
        pause = 0.0
        while not self._closing:
            await asyncio.sleep(pause)
            try:
                await self._one_more()
            except (ValueError, OSError) as error:
                self._ears.say("engine not started", level="error", reason=str(error))
                pause = min(LONGEST_PAUSE_S, 2 * pause or 0.5)
            else:
                self.restarts += 1
                self._ears.say("engine started", restarts=self.restarts)
                return

    async def _one_more(self) -> None:
        engine = await Engine.started(self.orders)
        enough = len(self.working) >= self.size  # a reload came in between
        if engine.facts == self.facts and not enough:
            self._join([engine])
            return
        await engine.leave()
        if engine.facts != self.facts:  # the folders hold other models by now: all engines must have the same
            await self.reload()

    async def _look_after(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LOOK_S)
            for engine in self.engines:
                since = engine.oldest()
                if since is not None and clock() - since > self._patience:
                    self._ears.say("engine does not answer", level="error", seconds=self._patience)
                    engine.kill()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
