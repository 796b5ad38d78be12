"""Ask a training to end (SIGTERM) at random moments: it must save what it has, lose no step, and exit with 143 (R5).

    python tests/chaos/training_terms.py [--times 20] [--updates 400]

Prints one JSON line: how often it was asked, how often the newest checkpoint was of the last update that was made, the
exit code was 143 and all within 2 s; the longest time it took; and whether the run, continued each time, ends with
bitwise the state of one that nobody disturbed.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from training_kills import Training, finish

SECONDS = 2.0
SECONDS_PER_UPDATE = 0.0075
"""Less than an update takes, so that the training is still running when it is asked for the last time."""


def term(process: Training, moment: float) -> tuple[float, int]:
    """Ask it to end so long after its first update; how long it took, and the last update that it made."""
    said = [process.stdout.readline()]
    while said[-1] and not said[-1].startswith("update"):
        said.append(process.stdout.readline())
    time.sleep(moment)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    rest = process.finish()
    took = time.monotonic() - begin
    updates = [line.split()[1] for line in [*said, *rest.splitlines()] if line.startswith("update")]
    return took, int(updates[-1])


def newest(folder: Path) -> int:
    return max((int(path.name.partition("-")[2]) for path in (folder / "checkpoints").glob("update-*")), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    wanted = parser.parse_args()
    moments = random.Random(wanted.seed)
    counts = {"asked": 0, "nothing_lost": 0, "exit_143": 0, "in_time": 0}
    longest = 0.0
    arguments = (f"--updates={wanted.updates}", "--every=100000")
    with tempfile.TemporaryDirectory() as place:
        straight = finish(Training(Path(place) / "straight", *arguments))
        asked = Path(place) / "asked"
        for _ in range(wanted.times):
            process = Training(asked, *arguments)
            took, last = term(process, moments.uniform(0.0, SECONDS_PER_UPDATE * wanted.updates / wanted.times))
            longest = max(longest, took)
            counts["asked"] += 1
            counts["nothing_lost"] += newest(asked) == last
            counts["exit_143"] += process.returncode == 143
            counts["in_time"] += took <= SECONDS
        equal = finish(Training(asked, *arguments)) == straight
    print(json.dumps({"bench": "training_terms", "values": {**counts, "longest_s": longest, "equal": int(equal)}}))
    raise SystemExit(not (equal and set(counts.values()) == {wanted.times}))


if __name__ == "__main__":
    main()
