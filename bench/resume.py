"""Time the first update of a resumed training on ten million pairs, from random positions.

    python bench/resume.py [--pairs 10000000] [--positions 3] [--folder FOLDER]

`dragoman train` prepares pairs of made-up words and trains a tiny model on them until SIGTERM makes it save. Then the
checkpoint gets other update numbers, drawn at random from the first epochs, and the same command resumes from each. The
time is that of a fresh process from its start to the first update in its log; the page cache is dropped first, where
that is allowed. FOLDER is kept and reused.
"""

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
from report import option_parser, print_values

from dragoman.io import hashed_json

WORDS = 1000
EPOCHS = 3
RECIPE = """\
name: resume
data:
  train: [{source: a.source, target: a.target}]
  dev: {source: dev.source, target: dev.target}
  vocabulary: {kind: bpe, size: VOCABULARY}
model: {preset: tiny}
training:
  batch: {tokens: 4096}
  stop: {updates: 10000000, metric: loss}
  validate_every: 10000000
  checkpoints: {every: null}
  log_every: 1
"""


def write_text(folder: Path, num_pairs: int) -> None:
    """Write lines that begin with three words in an order no other line has, and up to nine more words."""
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


def wait_for_updates(folder: Path, process: subprocess.Popen[bytes], count: int, timeout: float) -> None:
    """Wait until the log has this number of updates; its last line may be incomplete."""
    log = folder / "run" / "log.jsonl"
    end = time.monotonic() + timeout
    while True:
        events = [json.loads(line) for line in _read(log).split(b"\n")[:-1]]
        if sum(event["event"] == "update" for event in events) >= count:
            return
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit(f"dragoman train made no update: exit code {process.poll()}")
        time.sleep(0.02)


def _read(log: Path) -> bytes:
    return log.read_bytes() if log.exists() else b""


def first_checkpoint(folder: Path, num_pairs: int, vocabulary: int) -> Path:
    """Train for a moment and return the checkpoint that SIGTERM leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = folder / "run" / "checkpoints"
    if not (folder / "recipe.yaml").exists():
        print(f"writing {num_pairs:,} pairs", flush=True)
        write_text(folder, num_pairs)
        (folder / "recipe.yaml").write_text(RECIPE.replace("VOCABULARY", str(vocabulary)))
    if not any(checkpoints.glob("update-*")):
        print("preparing and training", flush=True)
        process = start(folder)
        wait_for_updates(folder, process, 3, timeout=7200)
        process.send_signal(signal.SIGTERM)
        if process.wait() != 143:
            raise SystemExit(f"dragoman train ended with {process.returncode} after SIGTERM instead of 143")
    return min(checkpoints.glob("update-*"))


def copy_checkpoint(checkpoint: Path, update: int) -> Path:
    """Copy the checkpoint with another update number."""
    to = checkpoint.with_name(f"update-{update:09}")
    shutil.copytree(checkpoint, to)
    body = hashed_json.read(to / "manifest.json")
    body["update"] = body["state"]["trainer"]["update"] = update
    (to / "manifest.json").write_bytes(hashed_json.render(body))
    return to


def drop_page_cache() -> bool:
    """Drop the page cache; return False where only root can."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def resume_seconds(folder: Path, checkpoint: Path, update: int) -> float:
    """Return the seconds from the start of the command to its first update."""
    copy = copy_checkpoint(checkpoint, update)
    drop_page_cache()
    (folder / "run" / "log.jsonl").unlink(missing_ok=True)
    since = time.perf_counter()
    process = start(folder)
    wait_for_updates(folder, process, 1, timeout=120)
    taken = time.perf_counter() - since
    process.kill()
    process.wait()
    shutil.rmtree(copy)
    print(f"update {update:,}: {taken:.1f} s", flush=True)
    return taken


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--positions", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        checkpoint = first_checkpoint(folder, options.pairs, options.vocabulary)
        print("page cache dropped" if drop_page_cache() else "page cache kept: only root can drop it", flush=True)
        epoch = max(100, options.pairs // 100)
        draw = random.Random(1)
        positions = [draw.randrange(100, EPOCHS * epoch) for _ in range(options.positions)]
        times = [resume_seconds(folder, checkpoint, position) for position in positions]
    print_values("resume", {"pairs": options.pairs, "slowest_s": max(times)}, 2)


if __name__ == "__main__":
    main()
