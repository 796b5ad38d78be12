"""Kill processes of a training that `dragoman train` has started, and once the launcher itself (R2).

    python tests/chaos/worker_kills.py [--workers 5] [--launchers 1] [--updates 200]

The dates example on 2 processes. Each kill of a worker must be answered by one restart of all, which goes on from the
last checkpoint; after a killed launcher no process may go on, and the same command must. Prints one JSON line: kills,
how often the run was resumed, the time from a kill to the next update (95th percentile), processes that outlived their
launcher, and whether the model is bitwise that of a run that nobody disturbed. The exit code says whether all held.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WORKER = "dragoman.experiment.worker"
PATIENCE = 300.0


def start(recipe: Path, out: Path, settings: dict[str, int]) -> subprocess.Popen[bytes]:
    """A training of two processes, with these keys of its recipe's training section, in a session of its own."""
    changes = [part for key, value in settings.items() for part in ("--set", f"training.{key}={value}")]
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--out", str(out), *changes, "--processes", "2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def start_dates(example: Path, out: Path, updates: int) -> subprocess.Popen[bytes]:
    settings = {
        "stop.updates": updates,
        "checkpoints.every": 10,
        "validate_every": updates,
        "log_every": 1,
        "schedule.warmup": 20,
    }
    return start(example / "recipe.yaml", out, settings)


def workers(out: Path) -> list[int]:
    """The processes that train there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if WORKER.encode() in words and str(out).encode() in words:
            found.append(int(place.name))
    return sorted(found)


def events(out: Path) -> list[dict[str, object]]:
    """The log so far; its last line may be half written."""
    try:
        lines = (out / "log.jsonl").read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []


def wait_for(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Until it is so; False if the run ended before."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if what():
            return True
        if process.poll() is not None:
            return what()
        time.sleep(0.02)
    raise SystemExit("nothing happened for five minutes")


def last_update(out: Path) -> int:
    return max((int(str(event["update"])) for event in events(out) if event["event"] == "update"), default=0)


def num_resumed(out: Path) -> int:
    return sum(event["event"] == "resumed" for event in events(out))


def goes_on(out: Path, before: int) -> bool:
    """Whether the run was resumed once more, and has made an update since."""
    told = events(out)
    places = [number for number, event in enumerate(told) if event["event"] == "resumed"]
    return len(places) > before and any(event["event"] == "update" for event in told[places[-1] :])


def model(out: Path) -> bytes:
    return (out / "bundle" / "model.safetensors").read_bytes()


def killed(example: Path, out: Path, wanted: argparse.Namespace, draw: random.Random) -> dict[str, float]:
    times, launchers, outlived, kills = [], 0, 0, 0
    process = start_dates(example, out, wanted.updates)
    deaths = ["worker"] * wanted.workers + ["launcher"] * wanted.launchers
    draw.shuffle(deaths)
    for number, death in enumerate(deaths):
        after = 15 + number * (wanted.updates - 40) // len(deaths) + draw.randrange(8)
        if not wait_for(lambda after=after: last_update(out) >= after and len(workers(out)) == 2, process):
            break
        before, begin = num_resumed(out), time.monotonic()
        kills += 1
        if death == "worker":
            os.kill(draw.choice(workers(out)), signal.SIGKILL)
        else:
            launchers += 1
            process.kill()
            process.wait()
            time.sleep(2.0)
            outlived += len(workers(out))
            process = start_dates(example, out, wanted.updates)
        if not wait_for(lambda before=before: goes_on(out, before), process):
            break
        times.append(time.monotonic() - begin)
    code = process.wait(timeout=PATIENCE)
    slowest = sorted(times)[max(0, round(0.95 * len(times)) - 1)] if times else 0.0
    return {
        "kills": kills,
        "launchers_killed": launchers,
        "resumed": num_resumed(out),
        "p95_s": slowest,
        "outlived": outlived,
        "exit_code": code,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=5, help="how many of them are killed")
    parser.add_argument("--launchers", type=int, default=1)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    wanted = parser.parse_args()
    draw = random.Random(wanted.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([sys.executable, "-m", "dragoman", "example", "dates", str(folder / "dates")], check=True)
        for name, count in (("train", 1000), ("dev", 20), ("test", 20)):  # of many more
            for side in ("en", "iso"):
                path = folder / "dates" / f"{name}.{side}"
                path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:count]), "utf-8")
        straight = start_dates(folder / "dates", folder / "straight", wanted.updates)
        straight.wait(timeout=PATIENCE)
        values = killed(folder / "dates", folder / "killed", wanted, draw)
        equal = not values["exit_code"] and model(folder / "killed") == model(folder / "straight")
    values["equal"] = int(equal)
    print(json.dumps({"bench": "worker_kills", "values": values}))
    all_killed = values["kills"] == values["resumed"] == wanted.workers + wanted.launchers
    raise SystemExit(not (equal and all_killed and values["outlived"] == 0))


if __name__ == "__main__":
    main()
