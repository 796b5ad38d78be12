"""The gradients of the batches that one process reads for an update, and how they meet those of the others."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.allocator import give_back_memory
from dragoman.training.config import TrainingConfig
from dragoman.training.objective import Objective
from dragoman.training.parallel import Group
from dragoman.training.pieces import MOST, cut, is_out_of_memory
from dragoman.training.randomness import seed_batch
from dragoman.training.shapes import filled_up


class Gradients:
    """Makes them; they are where torch keeps them, at the weights."""

    def __init__(self, model: Seq2Seq[Any, Any], config: TrainingConfig, group: Group, seed: int) -> None:
        self.objective: nn.Module = group.wrap(Objective(model, config.loss), model.parts, config.parallel)
        self.max_target, self.group, self.seed = model.max_target, group, seed
        self.is_half = config.precision == "bfloat16"
        self.pieces = 1 if config.pieces == "auto" else config.pieces
        """Into which each batch is cut, for lack of memory."""
        self._is_sharing = False

    def of(self, share: Sequence[Batch]) -> float:
        """Those of an update, shared with the other processes by its last backward pass; these batches' summed loss."""
        return self._fitted(lambda: sum(self.of_batch(batch, batch is share[-1]) for batch in share))

    def try_out(self, batch: Batch) -> None:
        """See whether memory is enough for a batch on top of another's gradients; leave nothing of it."""
        self._fitted(lambda: self.of_batch(batch, shares=False) + self.of_batch(batch, shares=False))
        self.objective.zero_grad()

    def _fitted(self, attempt: Callable[[], float]) -> float:
        """What memory does not hold is cut finer, and made again."""
        while True:
            try:
                return attempt()
            except (RuntimeError, MemoryError) as error:
                # Once sharing has begun, others have a part of these gradients: then all must start again.
                if not is_out_of_memory(error) or self.pieces >= MOST or self._is_sharing:
                    raise
            self.objective.zero_grad()
            give_back_memory()
            self.pieces *= 2

    def of_batch(self, batch: Batch, shares: bool) -> float:
        """Add those of a batch to what is there; its summed loss."""
        source, target = (torch.from_numpy(side).long() for side in (batch.source, batch.target))
        if self.is_half:
            source, target = filled_up(source, target, self.max_target)
        seed_batch(self.seed, batch.index)
        parts = list(cut(source, target, self.pieces))
        losses = [self._of_piece(*part, shares and part is parts[-1]) for part in parts]
        return sum(losses)

    def _of_piece(self, source: Tensor, target: Tensor, shares: bool) -> float:
        with nullcontext() if shares else self.group.apart(self.objective):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.is_half):
                loss: Tensor = self.objective(source, target)
            self._is_sharing = shares and self.group.size > 1
            loss.backward()  # type: ignore[no-untyped-call]
            self._is_sharing = False
        return loss.item()
