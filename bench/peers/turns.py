"""One side of bench/peers.py: a model that makes one update per input line and prints its time.

It imports only numpy and torch, so that it runs in the environment of any peer. It holds what every side shares: sizes,
batches, precision, dropout rate, and torch's fused AdamW; the model and its loss come from the peer.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

PAD, BOS, EOS, UNK = 0, 1, 2, 3
DROPOUT = 0.1
SMOOTHING = 0.1
TRIALS = 3


class Size(NamedTuple):
    """The model size of every side: one matrix for both embeddings and the projection, biases everywhere."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    """Layers of the encoder, and as many of the decoder."""
    vocabulary: int


SIZES = {
    "small": Size(d_model=256, d_ff=1024, num_heads=4, num_layers=3, vocabulary=8000),
    "base": Size(d_model=512, d_ff=2048, num_heads=8, num_layers=6, vocabulary=37_000),
}

Loss = Callable[[Tensor, Tensor], Tensor]
"""Maps source and target, both ending with EOS and padded with PAD, to the loss per target token."""

Build = Callable[[Size], tuple[nn.Module, Loss]]


class Side:
    """A model in training."""

    def __init__(self, build: Build, size: Size, precision: str) -> None:
        torch.manual_seed(1)
        self.model, self.loss = build(size)
        self.model.train()
        self.precision = precision
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), 1e-4, (0.9, 0.98), 1e-9, weight_decay=0.0, fused=True
        )

    def update(self, source: Tensor, target: Tensor) -> None:
        with self.autocast():
            loss = self.loss(source, target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        assert loss.isfinite()

    def autocast(self) -> AbstractContextManager[None]:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16")

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.parameters() if weight.requires_grad)


def serve(package: str, variants: Mapping[str, Build]) -> None:
    """Build the fastest variant, then make an update for each batch index on standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr  # a library's own prints must not be read as answers
    batches = read(arguments.batches)
    name, side = fastest(variants, SIZES[arguments.size], arguments.precision, batches)
    about = {"version": version(package), "torch": torch.__version__, "variant": name}
    print(json.dumps({**about, "parameters": side.num_parameters}), file=answers, flush=True)
    for line in sys.stdin:
        begin, processor = time.perf_counter(), time.process_time()
        side.update(*batches[int(line)])
        times = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - processor}
        print(json.dumps(times), file=answers, flush=True)


def read(path: Path) -> list[tuple[Tensor, Tensor]]:
    with np.load(path) as arrays:
        return [
            (torch.from_numpy(arrays[f"source_{i}"]).long(), torch.from_numpy(arrays[f"target_{i}"]).long())
            for i in range(len(arrays.files) // 2)
        ]


def fastest(
    variants: Mapping[str, Build], size: Size, precision: str, batches: list[tuple[Tensor, Tensor]]
) -> tuple[str, Side]:
    """Return the variant with the least processor time over a few alternating updates."""
    sides = {name: Side(build, size, precision) for name, build in variants.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for trial in range(TRIALS if len(sides) > 1 else 1):
        for name, side in sides.items():
            begin = time.process_time()
            side.update(*batches[trial % len(batches)])
            times[name].append(time.process_time() - begin)
    best = min(sides, key=lambda name: statistics.median(times[name]))
    return best, sides[best]


def shifted(target: Tensor) -> Tensor:
    """Return the decoder's input: the target shifted right, with BOS first."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
