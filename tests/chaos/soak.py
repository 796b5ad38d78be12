"""Watch the memory of a command, its children included, until it ends or the time is up.

    python tests/chaos/soak.py [--minutes 30] [--after 5] -- dragoman train recipe.yaml --out run

Resident memory is looked at every five seconds, and told every minute. Growth is that of the median over the last five
minutes against the median over the five that follow the first `--after` ones; whatever the command does now and then,
such as validating and saving, must have been done once by then. A command that still runs in the end is told to stop.
Prints one JSON line; the exit code says whether the growth is 2 % or less.
"""

import argparse
import json
import signal
import statistics
import subprocess
import time
from pathlib import Path

EVERY, STRETCH, MOST = 5.0, 300.0, 0.02


def resident(pid: int) -> int:
    """Bytes of a process and of all that it started; what several of them share is counted in parts."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += 1024 * int(line.split()[1])
        children = [int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in _children(task)]
    except (OSError, ValueError):
        return total
    return total + sum(resident(child) for child in children)


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--after", type=float, default=5.0, help="minutes that are not counted")
    parser.add_argument("command", nargs="+")
    wanted = parser.parse_args()
    seen: list[tuple[float, int]] = []
    begin = time.monotonic()
    process = subprocess.Popen(wanted.command)
    while process.poll() is None and time.monotonic() - begin < 60 * wanted.minutes:
        time.sleep(EVERY)
        if size := resident(process.pid):
            seen.append((time.monotonic() - begin, size))
            if len(seen) % round(60 / EVERY) == 0:
                print(f"minute {seen[-1][0] / 60:.0f}: {size / 2**20:,.0f} MB", flush=True)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait()
    first = [size for at, size in seen if 0 <= at - 60 * wanted.after < STRETCH]
    last = [size for at, size in seen if at > seen[-1][0] - STRETCH]
    growth = statistics.median(last) / statistics.median(first) - 1
    values = {
        "minutes": round(seen[-1][0] / 60, 1),
        "growth": round(growth, 4),
        "megabytes": round(statistics.median(last) / 2**20),
        "peak_megabytes": round(max(size for _, size in seen) / 2**20),
    }
    print(json.dumps({"bench": "soak", "values": values}))
    raise SystemExit(growth > MOST)


if __name__ == "__main__":
    main()
