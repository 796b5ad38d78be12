"""Change models, and the service itself, under traffic (S3).

    python tests/chaos/reload_and_handover.py [--rate 50] [--reloads 10] [--without-successor]

While requests come in: so many hot reloads, back and forth between two bundles; one reload of a damaged bundle, which
the service must refuse and go on with the old one; then SIGTERM, while a successor already listens on the same socket,
passed to both as systemd does. No request may be dropped or answered with a 5xx, and each answer must name one of the
two bundles. Prints one JSON line; the exit code says whether all held.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

from load import RequestResult, send_at_rate, translate_alone
from service_process import ServiceProcess

from dragoman.bundle import demo_folder, open_bundle

PATIENCE = 60.0


def two_bundles(place: Path) -> tuple[Path, Path]:
    """The demo, and the same with a longer limit of length: the same translations, another hash."""
    first, second = place / "first", place / "second"
    shutil.copytree(demo_folder(), first)
    from dragoman.bundle import write_bundle

    bundle = open_bundle(first)
    info = bundle.info.model_copy(update={"search": {**bundle.info.search, "max_length": {"ratio": 1.0, "extra": 51}}})
    write_bundle(second, info, bundle.weights(), bundle.vocab, bundle.card)
    from dragoman.translation.export_check import export_bundle

    export_bundle(second)
    return first, second


def put(folder: Path, live: Path) -> None:
    """A copy of the bundle takes the place of the one that is served."""
    beside = live.with_name("beside")
    shutil.copytree(folder, beside)
    if live.exists():
        live.rename(live.with_name("gone"))
    beside.rename(live)
    shutil.rmtree(live.with_name("gone"), ignore_errors=True)


def started(live: Path, listener: socket.socket) -> ServiceProcess:
    """A service on a socket that somebody else keeps open."""
    serve = f"{sys.executable} -m dragoman serve demo={live} --engines 1 --limit drain_seconds=2"
    script = f"exec 3<&{listener.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec {serve}"
    running = ServiceProcess(["sh", "-c", script], dict(os.environ), (listener.fileno(),))
    running.wait_until_started(120.0)
    return running


async def reloading(service: ServiceProcess, bundles: tuple[Path, Path], live: Path, reloads: int) -> None:
    for number in range(reloads):
        await asyncio.to_thread(put, bundles[(number + 1) % 2], live)
        service.send_signal(signal.SIGHUP)
        await asyncio.to_thread(service.wait_for_event, "reloaded", number + 1, PATIENCE)
    weights = live / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    weights.write_bytes(damaged)
    service.send_signal(signal.SIGHUP)
    await asyncio.to_thread(service.wait_for_event, "reload failed", 1, PATIENCE)
    await asyncio.to_thread(put, bundles[0], live)


async def succession(
    old: ServiceProcess, live: Path, listener: socket.socket, successors: list[ServiceProcess], without_successor: bool
) -> None:
    if without_successor:
        listener.close()
    else:
        successors.append(await asyncio.to_thread(started, live, listener))
    old.send_signal(signal.SIGTERM)
    await asyncio.to_thread(old.process.wait, PATIENCE)


def run(rate: float, reloads: int, seconds: float, without_successor: bool = False) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, socket.socket() as listener:
        place = Path(name)
        bundles, live = two_bundles(place), place / "live"
        put(bundles[0], live)
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        old = started(live, listener)
        successors: list[ServiceProcess] = []
        hashes = {open_bundle(bundle).model_sha256 for bundle in bundles}
        try:
            expected = asyncio.run(translate_alone(old.url))
            came = asyncio.run(send_at_rate(old.url, rate, seconds, lambda: reloading(old, bundles, live, reloads)))
            came += asyncio.run(
                send_at_rate(
                    old.url, rate, 12.0, lambda: succession(old, live, listener, successors, without_successor)
                )
            )
            code = old.stop()
        finally:
            for one in (old, *successors):
                one.stop()
    return counted(came, expected, hashes) | {"reloads": reloads, "exit_code": code}


def counted(came: list[RequestResult], expected: dict[str, str], hashes: set[str]) -> dict[str, float]:
    good = [one for one in came if one.status == 200]
    return {
        "requests": len(came),
        "dropped": sum(one.status == 0 for one in came),
        "server_errors": sum(one.status >= 500 for one in came),
        "error": sum(one.translation != expected[one.text] for one in good),
        "nameless": sum(one.sha256 not in hashes for one in good),
        "models_seen": len({one.sha256 for one in good}),
        "slowest_s": round(max(one.seconds for one in came), 2),
    }


def holds(values: dict[str, float]) -> bool:
    bad = ("dropped", "server_errors", "error", "nameless", "exit_code")
    return not any(values[name] for name in bad) and values["models_seen"] == 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--reloads", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--without-successor", action="store_true", help="as it would be if nobody took over the socket"
    )
    given = parser.parse_args()
    values = run(given.rate, given.reloads, given.seconds, given.without_successor)
    print(json.dumps({"bench": "reload_and_handover", "values": values}))
    raise SystemExit(not holds(values))


if __name__ == "__main__":
    main()
