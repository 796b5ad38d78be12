"""A run up to this update, from wherever it was left: python continued.py FOLDER UPDATES ddp|fsdp BATCHES LOST_IN.

Once for each process with torch's environment of ranks, or without it for one alone. The first prints its losses and
leaves the weights in FOLDER/weights.pt; each adds the indices of the batches it trained on to FOLDER/batches-RANK.
BATCHES is the number of batches per update. Unless LOST_IN is 0, the second process kills itself in that update, once
there is a checkpoint.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from together import SHAPES, Random

from dragoman.data.batches import Batch
from dragoman.models.build import build
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer


class Recorded(Random):
    """Keeps the indices of its batches."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def __call__(self, index: int) -> Batch:
        self.indices.append(index)
        return super().__call__(index)


def main() -> None:
    folder, updates, parallel = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    batches_per_update, lost_in = int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    settings = {
        "batches_per_update": batches_per_update,
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
        reader = Recorded()

        def validate(_: object) -> dict[str, float]:
            return {"bleu": float(trainer.update), "loss": 1.0}  # the last weights are the best

        def on_step(update: int, _: str) -> None:
            if group.rank == 1 and update == lost_in:
                while not list(folder.glob("checkpoints/update-*/manifest.json")):
                    time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGKILL)

        trainer = Trainer(model, reader, config, validate, folder, group=group, on_event=on_event, on_step=on_step)
        outcome = trainer.run()
        trained = [index for index in reader.indices if index < updates * batches_per_update]  # a loader may read ahead
        with (folder / f"batches-{group.rank}").open("a") as file:
            print(*trained, sep="\n", file=file)
        if group.is_first:
            torch.save(dict(outcome.weights), folder / "weights.pt")
            print(json.dumps(losses))


if __name__ == "__main__":
    main()
