"""How soon a training on ten million pairs makes its first update when it goes on, wherever it was.

    python bench/resume.py [--pairs 10000000] [--positions 3] [--folder FOLDER]

Pairs of made-up words are written, prepared and trained on for a moment by `dragoman train`, a tiny model, until it is
told to stop and save. Then that checkpoint is given other numbers, drawn at random from the first epochs, and the same
command goes on from each. Timed is a fresh process from its start to the first update in its log; the files of the run
leave the machine's memory first, where that is allowed. FOLDER is kept, and used again. Last, one JSON line.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dragoman.data import hashed

WORDS = 1000
EPOCHS = 3
RECIPE = """\
name: resume
data:
  train: [{source: a.source, target: a.target}]
  dev: {source: dev.source, target: dev.target}
  vocabulary: {kind: bpe, size: 4000}
model: {preset: tiny}
training:
  batch: {tokens: 4096}
  stop: {updates: 10000000, metric: loss}
  validate_every: 10000000
  checkpoints: {every: null}
  log_every: 1
"""


def write_text(folder: Path, num_pairs: int) -> None:
    """Each line has three words that no other has in this order, and up to nine more."""
    draw = np.random.default_rng(2017)
    names = np.array(["".join(draw.choice(list("aeioulmnrst"), 5)) + str(word) for word in range(WORDS)])
    for name, first, count in (("a", 0, num_pairs), ("dev", num_pairs, 100)):
        with (folder / f"{name}.source").open("w") as source, (folder / f"{name}.target").open("w") as target:
            for start in range(first, first + count, 100_000):
                numbers = np.arange(start, min(start + 100_000, first + count))
                unique = names[np.stack([numbers % WORDS, numbers // WORDS % WORDS, numbers // WORDS**2], 1)]
                more = names[draw.integers(0, WORDS, (len(numbers), 9))]
                lengths = draw.integers(0, 10, len(numbers)).tolist()
                for head, tail, length in zip(unique.tolist(), more.tolist(), lengths, strict=True):
                    words = [*head, *tail[:length]]
                    source.write(" ".join(words) + "\n")
                    target.write(" ".join(reversed(words)) + "\n")


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dragoman", "train", "recipe.yaml", "--out", "run", "--processes", "1"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def until(folder: Path, process: subprocess.Popen[bytes], count: int, patience: float) -> None:
    """Wait until the log holds so many updates; its last line may be half written."""
    log = folder / "run" / "log.jsonl"
    end = time.monotonic() + patience
    while True:
        told = [json.loads(line) for line in _read(log).split(b"\n")[:-1]]
        if sum(event["event"] == "update" for event in told) >= count:
            return
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit(f"no update: exit code {process.poll()}")
        time.sleep(0.02)


def _read(log: Path) -> bytes:
    return log.read_bytes() if log.exists() else b""


def begin(folder: Path, num_pairs: int) -> Path:
    """The checkpoint of a run that was begun and stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = folder / "run" / "checkpoints"
    if not (folder / "recipe.yaml").exists():
        print(f"writing {num_pairs:,} pairs", flush=True)
        write_text(folder, num_pairs)
        (folder / "recipe.yaml").write_text(RECIPE)
    if not any(checkpoints.glob("update-*")):
        print("preparing and training", flush=True)
        process = start(folder)
        until(folder, process, 3, patience=7200)
        process.send_signal(signal.SIGTERM)
        if process.wait() != 143:
            raise SystemExit(f"it should have saved and ended with 143, not {process.returncode}")
    return min(checkpoints.glob("update-*"))


def moved(checkpoint: Path, update: int) -> Path:
    """The checkpoint as if it were of another update."""
    to = checkpoint.with_name(f"update-{update:09}")
    shutil.copytree(checkpoint, to)
    body = hashed.read(to / "manifest.json")
    body["update"] = body["numbers"]["update"] = update
    (to / "manifest.json").write_bytes(hashed.render(body))
    return to


def forget() -> bool:
    """Let the machine drop what it holds of files."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def resumed(folder: Path, checkpoint: Path, update: int) -> float:
    """Seconds from the start of the command to its first update."""
    there = moved(checkpoint, update)
    forget()
    (folder / "run" / "log.jsonl").unlink(missing_ok=True)
    since = time.perf_counter()
    process = start(folder)
    until(folder, process, 1, patience=120)
    taken = time.perf_counter() - since
    process.kill()
    process.wait()
    shutil.rmtree(there)
    print(f"update {update:,}: {taken:.1f} s", flush=True)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--positions", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        checkpoint = begin(folder, given.pairs)
        print("files leave memory first" if forget() else "files stay in memory: only root can drop them", flush=True)
        epoch = given.pairs // 100
        draw = random.Random(1)
        times = [resumed(folder, checkpoint, draw.randrange(100, EPOCHS * epoch)) for _ in range(given.positions)]
    print(json.dumps({"bench": "resume", "values": {"pairs": given.pairs, "slowest_s": round(max(times), 2)}}))


if __name__ == "__main__":
    main()
