"""Kill a training of two processes at random moments, and start it again each time: it must leave the same bundle.

    DRAGOMAN_DATA=... python tests/chaos/recipe_kills.py multi30k-en-de [--kills 10] [--updates 300]

The recipe is run once straight and once with kills of the launcher and all that it started, both with a checkpoint
every 15 updates. Compared are all files of the two bundles; the card says how long the training took and the manifest
holds the card's hash, so these two are not. Prints one JSON line; the exit code says whether all others are the same.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from worker_kills import events, last_update, start, wait_for

TOLD_THE_TIME = {"card.json", "README.md", "manifest.json"}


def begin(recipe: Path, out: Path, updates: int) -> subprocess.Popen[bytes]:
    settings = {
        "stop.updates": updates,
        "schedule.warmup": updates // 4,
        "checkpoints.every": 15,
        "validate_every": updates // 3,
        "log_every": 1,
    }
    return start(recipe, out, settings)


def killed(recipe: Path, out: Path, updates: int, kills: int, draw: random.Random) -> int:
    """The exit code, when it has been killed so many times and been let alone at last."""
    moments = sorted(draw.sample(range(5, updates), kills))
    for moment in moments:
        process = begin(recipe, out, updates)
        begun = len(events(out))
        wait_for(lambda begun=begun: len(events(out)) > begun, process)
        if not wait_for(lambda moment=moment: last_update(out) >= moment, process):
            raise SystemExit(f"it ended by itself before update {moment}")
        time.sleep(draw.uniform(0.0, 1.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(3.0)  # its workers have sessions of their own, and see that it is gone
        print(f"killed after update {last_update(out)}", flush=True)
    return begin(recipe, out, updates).wait()


def files(out: Path) -> dict[str, bytes]:
    bundle = out / "bundle"
    found = {str(path.relative_to(bundle)): path for path in bundle.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name not in TOLD_THE_TIME}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        straight, other = Path(place) / "straight", Path(place) / "killed"
        if code := begin(wanted.recipe, straight, wanted.updates).wait():
            raise SystemExit(f"the straight run ended with {code}")
        code = killed(wanted.recipe, other, wanted.updates, wanted.kills, random.Random(wanted.seed))
        equal = not code and files(straight) == files(other)
        names = sorted(files(straight))
        resumed = sum(event["event"] == "resumed" for event in events(other))
    values = {"kills": wanted.kills, "resumed": resumed, "files_compared": len(names), "equal": int(equal)}
    print("compared:", ", ".join(names))
    print(json.dumps({"bench": "recipe_kills", "values": values}))
    raise SystemExit(not equal)


if __name__ == "__main__":
    main()
