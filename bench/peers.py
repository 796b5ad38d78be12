"""Training speed beside other toolkits: tokens per second on the same batches, with models of the same size.

Each side is a process of its own in its own environment (bench/peers/): forward, its own loss, backward and torch's
fused AdamW, on one thread, with the same token ids, the same precision, the same dropout in the same places, and the C
library's allocator set as dragoman's training sets it. The sides of a case are all started first and then take turns,
an update each, in an order that changes, so that a busy machine slows all alike; a ratio is the median over rounds.

- `hf`: Hugging Face's MarianMTModel, built from a config, with the faster of its two attention paths (sdpa, eager). Its
  loss is cross entropy without label smoothing, which is cheaper; all others smooth labels by 0.1.
- `eole`: Eole's EncoderDecoderModel, which normalises before each sub-layer where all others do after it.
- `joey`: Joey NMT's Transformer. It and Eole also count the tokens that were right: their losses always do.

`small` has 3+3 layers, d_model 256, d_ff 1024, 4 heads and 8,000 ids; `base` is the paper's base model with its 37,000.
All have one matrix for both embeddings and the projection, and biases in attention. bf16 is autocast. Batches are of
Multi30k, or of generated dates (see bench/pipeline.py); a token is one that is not padding, of either side.
`vs_hf_small_bf16` is ours / theirs: above 1, ours is faster; `vs_hf_small` is the lower one of both precisions. By
processor time the ratios are printed beside. Last, one JSON line.

    python bench/peers.py --environments FOLDER [--install] [--seconds 120] [--sizes small base] [--peers hf eole joey]

--install makes the environments first: some 4 GB; in one that is there it installs what is missing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pipeline import SEED, prepared_in

from dragoman.data.batches import Reader
from dragoman.data.order import BatchConfig
from dragoman.data.vocab import PAD

SCRIPTS = Path(__file__).resolve().parent / "peers"
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}
SIZES = ("small", "base")
NUM_BATCHES = 6
LEAST_ROUNDS = 3
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""The settings of training/allocator.py, for all sides."""


class Peer(NamedTuple):
    """Its script, and what its environment holds beside torch."""

    script: str
    packages: tuple[str, ...]


PEERS = {
    "hf": Peer("hf.py", ("transformers==5.22.2", "sentencepiece")),
    "eole": Peer("eole_side.py", ("eole==0.6.4",)),
    "joey": Peer("joey.py", ("joeynmt==2.3.0", "importlib_metadata")),  # it imports the second without asking for it
}


class Turn(NamedTuple):
    """How long a turn took, on the wall and of the processor."""

    seconds: float
    processor: float


class LeftOutError(Exception):
    """A side that cannot take part, and why."""


class Side:
    """A process that makes updates when it is told to."""

    def __init__(self, python: Path, script: str, batches: Path, size: str, precision: str) -> None:
        command = [python, SCRIPTS / script, "--batches", batches, "--size", size, "--precision", precision]
        self.errors = batches.with_name(f"{script}.errors")
        environment = {**os.environ, **ALLOCATOR, "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment)

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def answer(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.errors.read_text(errors="replace").strip().splitlines()
            raise LeftOutError(said[-1] if said else "it ended without a word")
        answer: dict[str, object] = json.loads(line)
        return answer

    def turn(self, batch: int) -> Turn:
        assert self.process.stdin is not None
        print(batch, file=self.process.stdin, flush=True)
        answer = self.answer()
        return Turn(float(str(answer["seconds"])), float(str(answer["processor"])))


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(folder: Path, names: Sequence[str]) -> None:
    """An environment for each peer, with this torch first: otherwise it would bring one of its own."""
    pinned = f"torch=={torch.__version__.partition('+')[0]}"
    for name in names:
        python = python_of(folder / name)
        if not python.exists():
            venv.create(folder / name, with_pip=True)
        for packages in ((pinned, "numpy"), (pinned, *PEERS[name].packages)):
            print(f"installing {' '.join(packages)} in {folder / name}", flush=True)
            if subprocess.run([python, "-m", "pip", "install", "--quiet", *packages]).returncode:
                print(f"{name} does not install beside {pinned}: see above", flush=True)
                break


def save_batches(path: Path, tokens: int) -> list[int]:
    """The same arrays for every side; how many tokens each batch has."""
    arrays = {}
    with tempfile.TemporaryDirectory() as name:
        reader = Reader.of(prepared_in(Path(name)), BatchConfig(tokens=tokens), SEED)
        for number in range(NUM_BATCHES):
            batch = reader(number)
            arrays |= {f"source_{number}": batch.source, f"target_{number}": batch.target}
    np.savez(path, **arrays)
    sides = ("source", "target")
    return [sum(int((arrays[f"{side}_{i}"] != PAD).sum()) for side in sides) for i in range(NUM_BATCHES)]


def take_turns(sides: dict[str, Side], seconds: float) -> Iterator[tuple[int, dict[str, Turn]]]:
    """Round by round: the number of its batch, and how long each side took for it."""
    names = list(sides)
    begin = time.perf_counter()
    for number in range(10**9):
        if number > LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            return
        first = number % len(names)
        turns = {name: sides[name].turn(number % NUM_BATCHES) for name in names[first:] + names[:first]}
        if number:  # in the first round memory is still being found
            yield number % NUM_BATCHES, turns


def start(
    stack: ExitStack, pythons: dict[str, Path], batches: Path, size: str, precision: str
) -> tuple[dict[str, Side], dict[str, str]]:
    """The sides that came up, one after the other, and what is to be said of each."""
    scripts = {"ours": "ours.py"} | {name: peer.script for name, peer in PEERS.items()}
    sides, about = {}, {}
    for name, python in pythons.items():
        side = stack.enter_context(Side(python, scripts[name], batches, size, precision))
        try:
            said = side.answer()
        except LeftOutError as reason:
            print(f"{name} is left out: {reason}", flush=True)
            continue
        sides[name] = side
        about[name] = f"{said['version']} {said['variant']}, {int(str(said['parameters'])) / 1e6:.2f}M parameters"
    return sides, about


def measure(
    pythons: dict[str, Path], batches: Path, tokens: list[int], size: str, precision: str, seconds: float
) -> dict[str, float]:
    """Ours / theirs, for each peer that came up."""
    with ExitStack() as stack:
        sides, about = start(stack, pythons, batches, size, PRECISIONS[precision])
        if "ours" not in sides:
            raise SystemExit("our own side did not come up")
        rounds = list(take_turns(sides, seconds))
    ratios = {}
    for name in sides:
        speed = statistics.median(tokens[batch] / turns[name].seconds for batch, turns in rounds)
        ratios[name] = statistics.median(turns[name].seconds / turns["ours"].seconds for _, turns in rounds)
        processor = statistics.median(turns[name].processor / turns["ours"].processor for _, turns in rounds)
        print(
            f"{size:5} {precision}  {name:5} {speed:8,.0f} tokens/s   ours / theirs {ratios[name]:.2f} "
            f"(processor time {processor:.2f})   {about[name]}, {len(rounds)} rounds",
            flush=True,
        )
    del ratios["ours"]
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, required=True, help="the folder with hf/, eole/ and joey/")
    parser.add_argument("--install", action="store_true", help="make the environments that are missing")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for each size and precision")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch, both sides, padding included")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--precisions", nargs="+", choices=tuple(PRECISIONS), default=list(PRECISIONS))
    parser.add_argument("--peers", nargs="+", choices=tuple(PEERS), default=list(PEERS))
    arguments = parser.parse_args()
    if arguments.install:
        install(arguments.environments, arguments.peers)
    pythons = {"ours": Path(sys.executable)}
    for name in arguments.peers:
        python = python_of(arguments.environments / name)
        if python.exists():
            pythons[name] = python
        else:
            print(f"{name} is left out: there is no {python}; --install makes it", flush=True)
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        batches = Path(name) / "batches.npz"
        tokens = save_batches(batches, arguments.tokens)
        for size in arguments.sizes:
            for precision in arguments.precisions:
                found = measure(pythons, batches, tokens, size, precision, arguments.seconds)
                for peer, ratio in found.items():
                    values[f"vs_{peer}_{size}_{precision}"] = ratio
                    values[f"vs_{peer}_{size}"] = min(ratio, values.get(f"vs_{peer}_{size}", ratio))
    print(json.dumps({"bench": "peers", "values": {name: round(value, 3) for name, value in values.items()}}))


if __name__ == "__main__":
    main()
