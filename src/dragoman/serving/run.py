"""A service from what was asked for on the command line: engines, routes, socket, signals."""

import asyncio
import gc
import ipaddress
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.data.cores import num_cores
from dragoman.decoding.given import Compute
from dragoman.serving.app import application
from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.door import Door
from dragoman.serving.engine import Orders
from dragoman.serving.keys import Key, Keys
from dragoman.serving.limits import Limits
from dragoman.serving.listening import listening, serve
from dragoman.serving.logs import Log
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Setup:
    """All that a service is started with."""

    models: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 5000
    keys: Sequence[Key] | None = None
    engines: int | None = None
    threads: int = 1
    compute: Compute = "float32"
    origins: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)

    def refuse_mistakes(self) -> None:
        """What would let people in who don't belong there."""
        if self.keys is None and not is_loopback(self.host):
            raise ValueError(
                f"{self.host} can be reached from other machines, so a key must be needed: dragoman key NAME --file "
                "keys.yaml, then --keys keys.yaml; or listen on 127.0.0.1"
            )
        for origin in self.origins:
            if "*" in origin or not origin.startswith(("http://", "https://")):
                raise ValueError(f"--allow-origin {origin}: name every origin, such as https://example.org")


def run(setup: Setup, started: Callable[[str, int, Service], None]) -> None:
    """Serve until told to stop. ValueError and OSError say what to mend, before anybody was let in."""
    setup.refuse_mistakes()
    where = listening(setup.host, setup.port)
    with where:
        # One that was passed to us may listen elsewhere than where we were told.
        replace(setup, host=where.getsockname()[0]).refuse_mistakes()
        _allow_connections(setup.limits.connections)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # before the models are open, there is nothing to open anew
        try:
            asyncio.run(_serve(setup, where, started))
        except asyncio.CancelledError:
            raise SystemExit(128 + signal.SIGTERM) from None


def _allow_connections(number: int) -> None:
    """Each takes a file, and many systems allow no more than 1,024 unless asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 256
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _serve(setup: Setup, where: socket.socket, started: Callable[[str, int, Service], None]) -> None:
    log, metrics = Log(), Metrics()
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, here.cancel)  # until all is open; then see `serve`
    orders = Orders(setup.models, setup.threads, setup.compute)
    number = setup.engines or max(1, num_cores() // setup.threads)
    dispatcher = Dispatcher(orders, number, setup.limits, log, metrics.seen)
    metrics.watch(dispatcher)
    service = Service(dispatcher, setup.limits)
    await dispatcher.crew.start()  # before anybody is let in: a model that cannot be opened is said at once

    @asynccontextmanager
    async def life() -> AsyncIterator[None]:
        yield
        await dispatcher.crew.close()

    def names() -> dict[str, str]:
        return {facts.name: facts.sha256 for facts in service.models.values()}

    def begun() -> None:
        log("started", host=address[0], port=address[1], models=names())
        started(address[0], address[1], service)

    async def reload() -> None:
        try:
            await dispatcher.crew.reload()
        except (ValueError, OSError) as error:
            metrics.reloads.labels("failed").inc()
            log("reload failed", level="error", reason=str(error))
        else:
            metrics.reloads.labels("done").inc()
            log("reloaded", models=names())

    def drain() -> None:
        service.draining = True
        log("stopping", seconds=setup.limits.drain_seconds)

    hosts = LOOPBACK_NAMES if setup.keys is None else None
    keys = Keys(None if setup.keys is None else list(setup.keys))
    app = application(Door(service, keys, metrics), log, setup.origins, hosts, life)
    address = where.getsockname()
    gc.collect()
    gc.freeze()  # what is there now stays: to look through all of it takes 40 ms, in which nobody is answered
    await serve(app, where, setup.limits, drain, reload, begun)
    log("stopped")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
