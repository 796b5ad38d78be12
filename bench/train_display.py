"""Watch the display of `dragoman train` in a terminal: how often it changes, and how true its time left is.

    python bench/train_display.py --source a.en --target a.de [--time 5m] [--busy 1]

Starts the training on a pseudo terminal, with so many other processes that use a core each, and reads what is shown.
Prints the number of seconds of training without a change, the longest such time, and the largest relative error of the
time left, from 20 % of the training on and while at least 10 s are left, with the seconds that were left then.
"""

import multiprocessing
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

from report import option_parser, print_values

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LEFT = re.compile(r"about (?:(\d+):)?(\d+):(\d\d) left")


def burn() -> None:
    while True:
        pass


def read_terminal(process: subprocess.Popen[bytes], terminal: int) -> list[tuple[float, str]]:
    """Return all that the process shows, as (seconds since the start, text) in the order of arrival."""
    begin, shown = time.monotonic(), []
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:  # the process has ended
            return shown
        if data:
            shown.append((time.monotonic() - begin, ESCAPES.sub("", data.decode(errors="replace"))))
        elif process.poll() is not None:
            return shown


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--time", default="5m")
    parser.add_argument("--busy", type=int, default=1, help="processes that use a core each, beside the training")
    options = parser.parse_args()
    neighbours = [multiprocessing.Process(target=burn, daemon=True) for _ in range(options.busy)]
    for neighbour in neighbours:
        neighbour.start()
    master, terminal = pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        files = ["--source", options.source, "--target", options.target]
        command = [sys.executable, "-m", "dragoman", "train", *files, "--time", options.time, "--out", f"{folder}/run"]
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal, env=environment)
        os.close(terminal)
        shown = read_terminal(process, master)
    for neighbour in neighbours:
        neighbour.kill()
    if process.wait():
        raise SystemExit("".join(text for _, text in shown[-20:]))

    estimates = []
    for at, text in shown:
        for hours, minutes, seconds in LEFT.findall(text):
            estimates.append((at, 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)))
    if not estimates:
        raise SystemExit("no time left was shown: give a longer --time")
    begin, end = estimates[0][0], estimates[-1][0]
    frames = {int(at): text for at, text in shown if begin <= at <= end}
    changes = [begin, *(at for at in sorted(frames) if frames[at] != frames.get(at - 1)), end]
    pauses = [later - earlier for earlier, later in pairwise(changes)]
    late = [(left, end - at) for at, left in estimates if at - begin >= 0.2 * (end - begin) and end - at >= 10]
    worst, seconds_left = max(((abs(left - true) / true, true) for left, true in late), default=(0.0, 0.0))
    values = {
        "training_seconds": end - begin,
        "frames": len(shown),
        "longest_pause_s": max(pauses),
        "seconds_without_change": sum(max(0.0, pause - 2) for pause in pauses),
        "worst_time_left_error": worst,
        "seconds_left_at_the_worst": seconds_left,
    }
    print_values("train_display", values)


if __name__ == "__main__":
    main()
