"""A run up to this update, from wherever it was left: python continued.py FOLDER UPDATES ddp|fsdp [BATCHES_PER_UPDATE].

Once for each process with torch's environment of ranks, or without it for one alone. The first prints its losses.
"""

import json
import sys
from pathlib import Path

import torch
from together import BATCHES_PER_UPDATE, SHAPES, Random

from dragoman.models.build import build
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer


def main() -> None:
    folder, updates, parallel = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    batches = int(sys.argv[4]) if len(sys.argv) > 4 else BATCHES_PER_UPDATE
    torch.set_num_threads(1)
    settings = {
        "batches_per_update": batches,
        "schedule": {"factors": ["warmup"], "rate": 0.01, "warmup": 5},
        "stop": {"updates": updates},
        "checkpoints": {"every": 10},
        "ema": 0.9,
        "validate_every": 10,
        "log_every": 1,
        "parallel": parallel,
    }
    losses: dict[int, float] = {}

    def on_event(event: Event) -> None:
        if event["event"] == "update":
            losses[event["update"]] = event["loss"]

    with init_group() as group:
        seed_weights(1)
        config = TrainingConfig.model_validate(settings)
        model = build(SHAPES["transformer"])
        scores = {"bleu": 0.0, "loss": 1.0}
        Trainer(model, Random(), config, lambda _: scores, folder, group=group, on_event=on_event).run()
        if group.is_first:
            print(json.dumps(losses))


if __name__ == "__main__":
    main()
