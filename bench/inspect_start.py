"""How long `dragoman inspect` takes to answer: whole processes with the demo model, from the command to its end.

Each is a new process with nothing imported; files may be in the system's memory after the first, whose time is shown
too. On a busy machine the processor's time, which is shown beside it, says what a quiet one would take. Last, one JSON
line with the median.

    python bench/inspect_start.py [--rounds 5]
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

COMMAND = [sys.executable, "-m", "dragoman", "inspect", "A man in a blue shirt is standing on a ladder."]


def seconds() -> tuple[float, float]:
    """On the clock, and of the processor."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=True)
    elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "free-running" in done.stdout
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how many times to start it")
    rounds = parser.parse_args().rounds
    times, processor = zip(*(seconds() for _ in range(rounds)), strict=True)
    print("clock    ", "  ".join(f"{value:5.2f}" for value in times), "s")
    print("processor", "  ".join(f"{value:5.2f}" for value in processor), "s")
    print(json.dumps({"bench": "inspect_start", "values": {"seconds": round(statistics.median(times), 2)}}))


if __name__ == "__main__":
    main()
