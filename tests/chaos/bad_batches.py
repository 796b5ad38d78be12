"""Let one batch of a training go wrong, in each way a batch can: it must leave no trace, and be named.

    python tests/chaos/bad_batches.py [--positions 20]

For each way and each of so many random positions, a run of 30 updates is made in which one batch gives a gradient that
is not a number, an infinite loss, or a hundred times its loss. After that update the weights, Adam's state and the
moving average must be bitwise what they were before it; the log must name the batch and its lines; and the run must go
on to its end. Then once more each with nobody on guard, which must be seen to do harm. Prints one JSON line.
"""

import argparse
import hashlib
import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.data.batches import Batch, Reader
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.text.vocab import EOS, NUM_SPECIALS
from dragoman.training.config import TrainingConfig
from dragoman.training.loss import Objective
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer

WAYS: Final = ("nan gradient", "inf loss", "100x loss")
UPDATES, BATCHES_PER_UPDATE = 30, 2
KNOWN: Final = 21
"""Updates until the guard knows what is usual."""
VOCABULARY, BAD = 17, 16
ROWS, SOURCE, TARGET = 3, 5, 6


class Moody(Objective):
    """Goes wrong when it reads the bad token."""

    way = ""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        loss = super().forward(source, target)
        if not (target == BAD).any():
            return loss
        if self.way == "nan gradient":
            loss.register_hook(lambda gradient: gradient * torch.nan)
            return loss
        return loss * (torch.inf if self.way == "inf loss" else 100.0)


@dataclass
class Witness:
    """Looks at everything that must not change, when the first batch after an update is asked for."""

    trainer: Trainer | None = None
    digests: dict[int, str] = field(default_factory=dict)
    objections: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        if event["event"] == "left out":
            self.objections.append(event)

    def look(self, index: int) -> None:
        if self.trainer is not None and index % BATCHES_PER_UPDATE == 0:
            self.digests.setdefault(index // BATCHES_PER_UPDATE, digest(self.trainer))


def digest(trainer: Trainer) -> str:
    assert trainer.average is not None
    weights = list(trainer.model.parameters())
    state = [trainer.optimizer.state[weight] for weight in weights]
    tensors = [*weights, *(one[name] for one in state for name in sorted(one)), *trainer.average.weights.values()]
    sha256 = hashlib.sha256(str(trainer.average.num_updates).encode())
    for tensor in tensors:
        sha256.update(tensor.detach().numpy().tobytes())
    return sha256.hexdigest()


class Batches(Reader):
    """Random pairs. One token comes in one batch alone, so that whoever reads it knows which that is."""

    def __init__(self, bad: int, witness: "Witness") -> None:
        self.bad, self.witness = bad, witness

    def __call__(self, index: int) -> Batch:
        self.witness.look(index)
        generator = np.random.default_rng(index)
        source, target = (
            generator.integers(NUM_SPECIALS, BAD, (ROWS, length), dtype=np.int32) for length in (SOURCE, TARGET)
        )
        source[:, -1] = target[:, -1] = EOS
        if index == self.bad:
            target[1, 2] = BAD
        return Batch(index, source, target, "little", ROWS * index + np.arange(ROWS))


def config(guarded: bool) -> TrainingConfig:
    settings: dict[str, Any] = {
        "batches_per_update": BATCHES_PER_UPDATE,
        "schedule": {"factors": ["warmup"], "rate": 0.003, "warmup": 10},
        "optimizer": {"clip": 1.0},
        "stop": {"updates": UPDATES},
        "ema": 0.9,
        "guard": {"spike": 10.0 if guarded else None},
        "log_every": 1,
        "validate_every": UPDATES,
        "checkpoints": {"every": None},  # each run begins anew in the same folder
    }
    return TrainingConfig.model_validate(settings)


def run(way: str, position: int, guarded: bool, folder: Path) -> dict[str, bool]:
    """A run whose batch of this position goes wrong: was it left out without a trace, named, and the end reached?"""
    shape = TransformerConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        d_model=8,
        d_ff=12,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    seed_weights(1)
    witness = Witness()
    reader = Batches(position, witness)
    trainer = Trainer(
        build(shape),
        reader,
        config(guarded),
        lambda _: {"bleu": 0.0, "loss": 1.0},
        folder,
        on_event=witness.on_event,
        d_model=shape.d_model,
    )
    objective = Moody(trainer.model, trainer.config.loss)
    objective.way = way
    trainer.gradients.objective, witness.trainer = objective, trainer
    if not guarded:
        trainer.guard.check = lambda *_: None  # type: ignore[method-assign]
    outcome = trainer.run()
    return judged(witness, reader(position), outcome.updates)


def judged(witness: Witness, bad: Batch, updates: int) -> dict[str, bool]:
    struck = bad.index // BATCHES_PER_UPDATE + 1
    digests, objections = witness.digests, witness.objections
    others = [update for update in range(1, UPDATES) if update != struck]
    lines = ", ".join(str(line + 1) for line in bad.lines)
    return {
        "untouched": digests[struck] == digests[struck - 1],
        "named": len(objections) == 1 and f"batch {bad.index}: lines {lines} of little" in objections[0]["batches"],
        "went_on": updates == UPDATES and all(digests[update] != digests[update - 1] for update in others),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of the positions; else drawn anew")
    wanted = parser.parse_args()
    draw = random.Random(wanted.seed)
    torch.set_num_threads(1)
    counts = {"injected": 0, "untouched": 0, "named": 0, "went_on": 0, "harm_unguarded": 0}
    with tempfile.TemporaryDirectory() as place:
        for way in WAYS:
            for _ in range(wanted.positions):
                position = draw.randrange(KNOWN * BATCHES_PER_UPDATE, (UPDATES - 1) * BATCHES_PER_UPDATE)
                found = run(way, position, True, Path(place))
                counts["injected"] += 1
                for name, held in found.items():
                    counts[name] += held
            counts["harm_unguarded"] += not run(way, position, False, Path(place))["untouched"]
    print(json.dumps({"bench": "bad_batches", "values": counts}))
    held = {counts["injected"], counts["untouched"], counts["named"], counts["went_on"]}
    raise SystemExit(len(held) > 1 or counts["harm_unguarded"] < len(WAYS))


if __name__ == "__main__":
    main()
