"""Time `dragoman inspect` with the demo model, from the start of the command to its end.

Each run is a new process; after the first, files may be in the page cache. On a busy machine the processor time,
printed beside the wall-clock time, shows what a quiet machine would take. The value is the median.

    python bench/inspect_start.py [--rounds 5]
"""

import resource
import statistics
import subprocess
import sys
import time

from report import option_parser, print_values

COMMAND = [sys.executable, "-m", "dragoman", "inspect", "A man in a blue shirt is standing on a ladder."]


def seconds() -> tuple[float, float]:
    """Return wall-clock and processor seconds of one run."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=True)
    elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "free-running" in done.stdout
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of runs")
    rounds = parser.parse_args().rounds
    times, processor = zip(*(seconds() for _ in range(rounds)), strict=True)
    print("clock    ", "  ".join(f"{value:5.2f}" for value in times), "s")
    print("processor", "  ".join(f"{value:5.2f}" for value in processor), "s")
    print_values("inspect_start", {"seconds": statistics.median(times)}, 2)


if __name__ == "__main__":
    main()
