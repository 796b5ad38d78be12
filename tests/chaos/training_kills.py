"""Kill a training at random moments and start it again each time: it must end with bitwise the same state (R1).

    python tests/chaos/training_kills.py [--kills 20] [--updates 300] [--forget]

Every second kill waits for a checkpoint that is just being written, and strikes inside it. Prints one JSON line: kills,
how many of them left an unfinished checkpoint behind, and whether the digests of weights, optimizer, averages and
counters are equal. With --forget, which must be found out, they are not. The exit code says whether all held.
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
from pathlib import Path

TOY = Path(__file__).with_name("toy_training.py")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TOY), str(folder), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> str:
    """The digest it ends with."""
    said, _ = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"the training ended with {process.returncode}")
    return said.rpartition("digest ")[2].strip()


def unfinished(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".*.incomplete"))


def finished(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("update-*"))


def kill(process: subprocess.Popen[str], folder: Path, inside: bool, moment: float) -> bool:
    """Kill it this long after its first update, or inside a save; whether it was still running."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) and not line.startswith("update"):
        pass
    end = time.monotonic() + moment
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.0005)
    while inside and process.poll() is None and not (finished(folder) and unfinished(folder)):
        time.sleep(0.0002)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return alive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    parser.add_argument("--forget", action="store_true", help="let checkpoints lack Adam's memory")
    wanted = parser.parse_args()
    moments = random.Random(wanted.seed)
    arguments = [f"--updates={wanted.updates}", *(["--forget"] if wanted.forget else [])]
    kills = inside = 0
    with tempfile.TemporaryDirectory() as place:
        straight = finish(start(Path(place) / "straight", *arguments))
        killed = Path(place) / "killed"
        for number in range(wanted.kills):
            process = start(killed, *arguments)
            if not kill(process, killed, number % 2 == 1, moments.uniform(0.0, 6.0 / wanted.kills)):
                break
            kills += 1
            inside += unfinished(killed)
        equal = finish(start(killed, *arguments)) == straight
    values = {"kills": kills, "inside_a_save": inside, "equal": int(equal)}
    print(json.dumps({"bench": "training_kills", "values": values}))
    raise SystemExit(not (equal and kills == wanted.kills))


if __name__ == "__main__":
    main()
