"""A run whose second process has memory for so many rows, found out in the backward pass: FOLDER ROWS, by torchrun.

The first prints the number of microbatches in the end.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from together import SHAPES, Random
from torch import Tensor

from dragoman.models.build import build
from dragoman.training.config import TrainingConfig
from dragoman.training.loss import Objective
from dragoman.training.parallel import init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Trainer


class Narrow(torch.autograd.Function):
    """The identity; its backward pass fails if a batch has more rows than there is memory for."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, is_too_large: bool) -> Tensor:
        ctx.is_too_large = is_too_large
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        if ctx.is_too_large:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        return gradient, None


def main() -> None:
    folder, room = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    settings = {
        "batches_per_update": 2,
        "schedule": {"factors": ["warmup"], "rate": 0.01, "warmup": 5},
        "stop": {"updates": 6},
        "checkpoints": {"every": 2},
        "validate_every": 100,
    }
    with init_group() as group:
        forward = Objective.forward

        def narrow(self: Objective, source: Tensor, target: Tensor) -> Tensor:
            return Narrow.apply(forward(self, source, target), group.rank == 1 and len(source) > room)  # type: ignore[no-any-return,no-untyped-call]

        Objective.forward = narrow  # type: ignore[method-assign,assignment]
        seed_weights(1)
        model = build(SHAPES["transformer"])
        config = TrainingConfig.model_validate(settings)
        trainer = Trainer(model, Random(), config, lambda _: {"bleu": 0.0, "loss": 1.0}, folder, group=group)
        trainer.run()
        if group.is_first:
            print(trainer.num_microbatches)


if __name__ == "__main__":
    main()
