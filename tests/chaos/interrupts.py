"""Interrupt `dragoman train` with Ctrl-C at random moments, and give the same command again each time.

    python tests/chaos/interrupts.py [--updates 3000] [--times 10] [--processes 2]

The signal goes to all processes of the command, as from a terminal. Every second moment is between a start and its
first update, the others are after an update drawn at random. Every interrupted command must exit with 130 and lose no
update, and the weights in the end must be bitwise those of a run without interruption. Prints one JSON line; the exit
code says whether all held.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dragoman.data.dates import dates

RECIPE = """\
name: interrupts
data:
  train: [{source: a.en, target: a.iso}]
  split: 200
  vocabulary: {size: 380}
model: {d_model: 32, d_ff: 64, num_heads: 2, num_encoder_layers: 2, num_decoder_layers: 2}
training:
  batch: {tokens: 512}
  batches_per_update: 2
  schedule: {factors: [warmup, linear], rate: 0.002, warmup: 50}
  stop: {updates: UPDATES}
  validate_every: 100
  log_every: 1
validation: {search: {beam_size: 1}, max_pairs: 50}
"""


def start(folder: Path, out: str, processes: int) -> subprocess.Popen[str]:
    """Start the training in a process group of its own."""
    command = [sys.executable, "-m", "dragoman", "train", "r.yaml", "--out", out, "--processes", str(processes)]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=threads, stdout=-1, stderr=-1, text=True, start_new_session=True)


def last_update(log: Path) -> int:
    """Return the number of the last update in the log, 0 if there is none."""
    numbers = re.findall(rb'"event": "update", "update": (\d+)', log.read_bytes()) if log.exists() else []
    return int(numbers[-1]) if numbers else 0


def wait_for_update(process: subprocess.Popen[str], log: Path, update: int) -> None:
    """Wait until the process has logged the update, or has ended."""
    while process.poll() is None and last_update(log) < update:
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str], seconds: float) -> str | None:
    """Send Ctrl-C after so many seconds; return the last line of output, or None if the run ended before."""
    try:
        process.communicate(timeout=seconds)
        return None
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        return process.communicate(timeout=120)[1].splitlines()[-1]


def weights(folder: Path) -> bytes:
    return (folder / "bundle" / "model.safetensors").read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="seed of the moments; default: random")
    options = parser.parse_args()
    moments = random.Random(options.seed)
    counts = {"interrupts": 0, "exit_130": 0, "nothing_lost": 0, "before_training": 0}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for side, texts in zip(("en", "iso"), zip(*dates(4000, seed=1), strict=True), strict=True):
            (folder / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (folder / "r.yaml").write_text(RECIPE.replace("UPDATES", str(options.updates)), encoding="utf-8")
        begin = time.monotonic()
        undisturbed = start(folder, "undisturbed", options.processes)
        wait_for_update(undisturbed, folder / "undisturbed" / "log.jsonl", 1)
        until_update = time.monotonic() - begin
        _, errors = undisturbed.communicate()
        assert undisturbed.returncode == 0, errors
        length = time.monotonic() - begin
        part = options.updates // (options.times + 1)  # so that updates are left after the last interrupt
        for number in range(options.times):
            process = start(folder, "disturbed", options.processes)
            if number % 2 == 1:
                seconds = moments.uniform(1.0, min(30.0, until_update / 2))
            else:
                update = moments.randint(number * part + 1, (number + 1) * part)
                wait_for_update(process, folder / "disturbed" / "log.jsonl", update)
                seconds = moments.uniform(0.0, 0.1)
            last = interrupt(process, seconds)
            if last is None:
                raise SystemExit("the training ended before it was interrupted")
            counts["interrupts"] += 1
            counts["exit_130"] += process.returncode == 130
            found = re.fullmatch(r"stopped at update ([\d,]+); .* from update ([\d,]+)", last)
            counts["nothing_lost"] += found is not None and found[1] == found[2]
            # Before the first update, while the text is prepared or scored: there is nothing to lose.
            counts["before_training"] += found is None and "at update" not in last
            print(f"{number + 1}: exit code {process.returncode}: {last}", file=sys.stderr, flush=True)
        process = start(folder, "disturbed", options.processes)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        equal = weights(folder / "disturbed") == weights(folder / "undisturbed")
    values = {**counts, "seconds": round(length, 1), "equal": int(equal)}
    print(json.dumps({"bench": "interrupts", "values": values}))
    kept = counts["nothing_lost"] + counts["before_training"]
    raise SystemExit(not (equal and counts["interrupts"] == counts["exit_130"] == kept))


if __name__ == "__main__":
    main()
