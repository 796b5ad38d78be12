"""Compare training speed with other toolkits: tokens per second on the same batches, with models of the same size.

Each side is a separate process in a separate environment (bench/peers/): forward, its own loss, backward and torch's
fused AdamW, on one thread, with the same token ids, the same precision, the same dropout in the same places, and the C
library's allocator set as dragoman's training sets it. All sides are started first and then take turns, one update
each, in a changing order, so that a busy machine slows all alike; a ratio is the median over rounds.

- `hf`: Hugging Face's MarianMTModel, built from a config, with the faster of its two attention paths (sdpa, eager). Its
  loss is cross entropy without label smoothing, which is cheaper; all others smooth labels by 0.1.
- `eole`: Eole's EncoderDecoderModel, which normalises before each sub-layer where all others do after it.
- `joey`: Joey NMT's Transformer. Its loss and Eole's also count the correct tokens.

`small` has 3+3 layers, d_model 256, d_ff 1024, 4 heads and 8,000 ids; `base` is the paper's base model with its 37,000.
All have one matrix for both embeddings and the projection, and biases in attention. bf16 is autocast. Batches are of
Multi30k, or of generated dates (see bench/pipeline.py); tokens exclude padding and are of both sides.
`vs_hf_small_bf16` is ours / theirs: above 1, ours is faster; `vs_hf_small` is the lower of both precisions. Ratios by
processor time are printed beside them.

    python bench/peers.py --environments FOLDER [--install] [--seconds 120] [--sizes small base] [--peers hf eole joey]

--install creates the environments first (about 4 GB), or installs missing packages into them.
"""

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
from pipeline import SEED, prepare_corpus
from report import option_parser, print_values

from dragoman.data.batches import Reader
from dragoman.data.order import BatchConfig
from dragoman.text.vocab import PAD

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
    """A toolkit: its script, and the packages of its environment beside torch."""

    script: str
    packages: tuple[str, ...]


PEERS = {
    "hf": Peer("hf.py", ("transformers==5.22.2", "sentencepiece")),
    "eole": Peer("eole_side.py", ("eole==0.6.4",)),
    "joey": Peer("joey.py", ("joeynmt==2.3.0", "importlib_metadata")),  # joeynmt imports both
}


class Turn(NamedTuple):
    """Wall-clock and processor seconds of one update."""

    seconds: float
    processor: float


class SideError(Exception):
    """A side that cannot take part, with the reason."""


class Side:
    """A process that makes one update for each line on its standard input."""

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
            errors = self.errors.read_text(errors="replace").strip().splitlines()
            raise SideError(errors[-1] if errors else "it ended without a message")
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
    """Create an environment for each peer, with this torch first: otherwise pip would take another one."""
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
    """Write the same arrays for every side; return the number of tokens of each batch."""
    arrays = {}
    with tempfile.TemporaryDirectory() as name:
        reader = Reader.of(prepare_corpus(Path(name)), BatchConfig(tokens=tokens), SEED)
        for number in range(NUM_BATCHES):
            batch = reader(number)
            arrays |= {f"source_{number}": batch.source, f"target_{number}": batch.target}
    np.savez(path, **arrays)
    sides = ("source", "target")
    return [sum(int((arrays[f"{side}_{i}"] != PAD).sum()) for side in sides) for i in range(NUM_BATCHES)]


def take_turns(sides: dict[str, Side], seconds: float) -> Iterator[tuple[int, dict[str, Turn]]]:
    """Yield for each round the index of its batch and the times of each side."""
    names = list(sides)
    begin = time.perf_counter()
    for number in range(10**9):
        if number > LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            return
        first = number % len(names)
        turns = {name: sides[name].turn(number % NUM_BATCHES) for name in names[first:] + names[:first]}
        if number:  # the first round allocates memory
            yield number % NUM_BATCHES, turns


def start(
    stack: ExitStack, pythons: dict[str, Path], batches: Path, size: str, precision: str
) -> tuple[dict[str, Side], dict[str, str]]:
    """Return the sides that started, and a description of each."""
    scripts = {"ours": "ours.py"} | {name: peer.script for name, peer in PEERS.items()}
    sides, about = {}, {}
    for name, python in pythons.items():
        side = stack.enter_context(Side(python, scripts[name], batches, size, precision))
        try:
            description = side.answer()
        except SideError as reason:
            print(f"{name} is left out: {reason}", flush=True)
            continue
        sides[name] = side
        about[name] = (
            f"{description['version']} {description['variant']}, "
            f"{int(str(description['parameters'])) / 1e6:.2f}M parameters"
        )
    return sides, about


def measure(
    pythons: dict[str, Path], batches: Path, tokens: list[int], size: str, precision: str, seconds: float
) -> dict[str, float]:
    """Return ours / theirs for each peer that started."""
    with ExitStack() as stack:
        sides, about = start(stack, pythons, batches, size, PRECISIONS[precision])
        if "ours" not in sides:
            raise SystemExit("our own side did not start: see the message above")
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
    parser = option_parser(__doc__)
    parser.add_argument("--environments", type=Path, required=True, help="the folder with hf/, eole/ and joey/")
    parser.add_argument("--install", action="store_true", help="create the missing environments")
    parser.add_argument("--seconds", type=float, default=120.0, help="time for each size and precision")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch, both sides, with padding")
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
            print(f"{name} is left out: {python} does not exist; --install creates it", flush=True)
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        batches = Path(name) / "batches.npz"
        tokens = save_batches(batches, arguments.tokens)
        for size in arguments.sizes:
            for precision in arguments.precisions:
                ratios = measure(pythons, batches, tokens, size, precision, arguments.seconds)
                for peer, ratio in ratios.items():
                    values[f"vs_{peer}_{size}_{precision}"] = ratio
                    values[f"vs_{peer}_{size}"] = min(ratio, values.get(f"vs_{peer}_{size}", ratio))
    print_values("peers", values)


if __name__ == "__main__":
    main()
