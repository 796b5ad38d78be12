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
import sys
import tempfile
import time
from pathlib import Path

import torch._dynamo  # noqa: F401  every optimizer of torch imports it
import toy_training


class Training:
    """A training in a fork of this process, which has imported torch: so it makes its first update at once."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(writer, 1)
            os.closerange(3, writer + 1)
            sys.argv = ["toy_training.py", str(folder), *arguments]
            os._exit(run_toy())
        os.close(writer)
        self.stdout = os.fdopen(reader)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None if the training is running."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def finish(self) -> str:
        """Return the rest of the output, when the training has ended."""
        with self.stdout:
            rest = self.stdout.read()
        while self.poll() is None:
            time.sleep(0.001)
        return rest


def run_toy() -> int:
    """Train, and return the exit code."""
    try:
        toy_training.main()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def finish(training: Training) -> str:
    """The digest it ends with."""
    said = training.finish()
    if training.returncode:
        raise SystemExit(f"the training ended with {training.returncode}")
    return said.rpartition("digest ")[2].strip()


def unfinished(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".*.incomplete"))


def finished(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("update-*"))


def kill(process: Training, folder: Path, inside: bool, moment: float) -> bool:
    """Kill it this long after its first update, or inside a save; whether it was still running."""
    while (line := process.stdout.readline()) and not line.startswith("update"):
        pass
    end = time.monotonic() + moment
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.0005)
    while inside and process.poll() is None and not (finished(folder) and unfinished(folder)):
        time.sleep(0.0002)
    alive = process.poll() is None
    if alive:
        os.kill(process.pid, signal.SIGKILL)
    process.finish()
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
        straight = finish(Training(Path(place) / "straight", *arguments))
        killed = Path(place) / "killed"
        for number in range(wanted.kills):
            process = Training(killed, *arguments)
            if not kill(process, killed, number % 2 == 1, moments.uniform(0.0, 6.0 / wanted.kills)):
                break
            kills += 1
            inside += unfinished(killed)
        equal = finish(Training(killed, *arguments)) == straight
    values = {"kills": kills, "inside_a_save": inside, "equal": int(equal)}
    print(json.dumps({"bench": "training_kills", "values": values}))
    raise SystemExit(not (equal and kills == wanted.kills))


if __name__ == "__main__":
    main()
