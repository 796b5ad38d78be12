"""A training to be killed: python toy_training.py FOLDER [--updates 300] [--every 3] [--forget].

A Transformer with dropout on random pairs, as one process or as a rank of several. Says `update N` on standard output
after each, and in the end the digest of all that was trained. Ends with 143 on SIGTERM. With --forget its
checkpoints lack Adam's memory, which a comparison of digests must find out.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dragoman.data.batches import Batch, Reader
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.text.vocab import EOS, NUM_SPECIALS
from dragoman.training.checkpoint import split_state
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import Group, init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.signals import Terminated
from dragoman.training.trainer import Event, Trainer

VOCABULARY: Final = 61
SHAPE: Final = TransformerConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    d_model=48,
    d_ff=96,
    num_heads=4,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dropout=0.3,
)


class Random(Reader):
    """A batch is drawn from its number."""

    def __init__(self) -> None:
        pass

    def __call__(self, index: int) -> Batch:
        draw = np.random.default_rng(index)
        source, target = (draw.integers(NUM_SPECIALS, VOCABULARY, (6, 5 + index % 7)) for _ in range(2))
        source[:, -1] = target[:, -1] = EOS
        return Batch(index, source.astype(np.int32), target.astype(np.int32), "random", np.arange(6))


def scored(model: Any) -> dict[str, Any]:
    total = sum(float(weight.detach().double().abs().sum()) for weight in model.parameters())
    return {"loss": 1.0, "bleu": total % 1.0, "samples": []}


def made(folder: Path, updates: int, every: int | None, group: Group | None = None, on_event: Any = None) -> Trainer:
    """The trainer of a run, new or to be resumed."""
    settings = {
        "batches_per_update": 2,
        "schedule": {"factors": ["warmup", "linear"], "rate": 0.01, "warmup": 20},
        "stop": {"updates": updates},
        "checkpoints": {"every": every, "keep": 2},
        "snapshots": {"every": 25, "average": 3},
        "validate_every": 40,
        "ema": 0.95,
        "log_every": 1,
    }
    seed_weights(3)
    config = TrainingConfig.model_validate(settings)
    on_event = on_event or (lambda _: None)
    return Trainer(build(SHAPE), Random(), config, scored, folder, 5, group, on_event, d_model=48)


def digest(trained: Trainer) -> str:
    """Of weights, optimizer, averages and counters; not of the clock."""
    tensors, numbers = split_state(trained.state_dict())
    timeless = {name: numbers[name] for name in ("average", "guard", "best")}
    timeless["snapshots"] = [info.model_dump() for info in trained.snapshots.files]
    timeless["updates"] = [trained.update, trained.budget.last]
    sha256 = hashlib.sha256(json.dumps(timeless, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        sha256.update(name.encode() + tensor.detach().numpy().tobytes())
    return sha256.hexdigest()


def forget_adam() -> None:
    """Break it on purpose."""
    complete = Trainer.state_dict
    Trainer.state_dict = lambda self: {**complete(self), "optimizer": {}}  # type: ignore[method-assign]


def show(event: Event) -> None:
    if event["event"] in ("update", "resumed"):
        print(event["event"], event["update"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--forget", action="store_true")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    if wanted.forget:
        forget_adam()
    try:
        with init_group() as group:
            trained = made(wanted.folder, wanted.updates, wanted.every, group, show)
            trained.run()
            print("digest", digest(trained), flush=True)
    except Terminated:
        raise SystemExit(143) from None


if __name__ == "__main__":
    main()
