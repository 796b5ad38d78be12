"""Gradients of an update: accumulated over batches and microbatches, and averaged over processes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.device import autocast, copy_to_device, is_cpu, is_out_of_memory, widest_float
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.allocator import release_device_memory
from dragoman.training.config import TrainingConfig
from dragoman.training.layer_execution import compile_layers, recompute_layers
from dragoman.training.loss import Objective, real_tokens
from dragoman.training.parallel import Group
from dragoman.training.randomness import seed_batch
from dragoman.training.shapes import pad_batch, pad_guide

LESS_MEMORY = "use a smaller model, lower training.batch.tokens, or start fewer --processes"


class ExchangeMemoryError(RuntimeError):
    """Raised when memory runs out while gradients are exchanged: all processes must start again.

    The other processes have a part of these gradients. `num_microbatches` is the number to start again with.
    """

    def __init__(self, num_microbatches: int) -> None:
        super().__init__(f"memory ran out: starting again with {num_microbatches} microbatches per batch")
        self.num_microbatches = num_microbatches


class Gradients:
    """Computes gradients and accumulates them in the `grad` attributes of the weights."""

    def __init__(self, model: Seq2Seq[Any, Any], config: TrainingConfig, group: Group, seed: int) -> None:
        if config.recompute:
            recompute_layers(model.layers)
        if config.compile:
            compile_layers(model.layers)
        self.objective: nn.Module = group.wrap(
            Objective(model, config.loss, config.guided_alignment), model.parts, config.parallel
        )
        self.max_target, self.group, self.seed = model.max_target, group, seed
        self.device = next(model.parameters()).device
        self.is_bfloat16 = config.precision == "bfloat16"
        self.num_microbatches = 1 if config.pieces == "auto" else config.pieces
        self._is_syncing = False
        self._num_rows = 0
        """The rows of the current microbatch."""
        self.on_step: Callable[[str], None] = lambda _: None
        """Called with what this process does, for the watchdog."""

    def of_update(self, batches: Sequence[Batch]) -> float:
        """Compute the gradients of an update, and return the summed loss of this process.

        The last backward pass averages the gradients over all processes.
        """
        total = self._fit(lambda: _sum([self.of_batch(batch, batch is batches[-1]) for batch in batches]))
        return total.item()  # once per update: the host waits here for the device

    def try_batch(self, batch: Batch) -> None:
        """Double the number of microbatches until a batch fits into memory; then clear the gradients."""
        self._fit(lambda: self.of_batch(batch, sync=False) + self.of_batch(batch, sync=False))
        self.objective.zero_grad()

    def _fit(self, compute: Callable[[], Tensor]) -> Tensor:
        """Call `compute`; while memory runs out, double the number of microbatches and try again.

        Raise ValueError if memory does not hold a single row.
        """
        while True:
            try:
                return compute()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if self._num_rows == 1:
                    raise ValueError(f"memory does not hold the gradients of a single pair: {LESS_MEMORY}") from error
                if self._is_syncing:
                    raise ExchangeMemoryError(2 * self.num_microbatches) from error
            self.objective.zero_grad()
            release_device_memory(self.device)
            self.num_microbatches *= 2

    def of_batch(self, batch: Batch, sync: bool) -> Float[Tensor, ""]:
        """Add the gradients of a batch to the `grad` attributes of the weights; return the summed loss."""
        source, target = (torch.from_numpy(side).long() for side in (batch.source, batch.target))
        guide = None if batch.guide is None else torch.from_numpy(batch.guide)
        if self.is_bfloat16:
            source, target = pad_batch(source, target, self.max_target)
            guide = None if guide is None else pad_guide(guide, source, target)
        seed_batch(self.seed, batch.index)
        parts = list(split_batch(source, target, self.num_microbatches, guide))
        return _sum([self._of_microbatch(*part, sync and part is parts[-1]) for part in parts])

    def _of_microbatch(self, source: Tensor, target: Tensor, guide: Tensor | None, sync: bool) -> Tensor:
        self._num_rows = source.shape[0]
        self.on_step("computing gradients")
        more: dict[str, Any] = {} if guide is None else {"guide": copy_to_device(guide, self.device)}
        if not is_cpu(self.device):  # counted on the host, which would wait for the number from the device
            more["real"] = tuple(copy_to_device(part, self.device) for part in real_tokens(target))
        source, target = (copy_to_device(side, self.device) for side in (source, target))
        with nullcontext() if sync else self.group.no_sync(self.objective):
            with autocast(self.device, self.is_bfloat16):
                loss: Tensor = self.objective(source, target, **more)
            self._is_syncing = sync and self.group.world_size > 1
            if self._is_syncing:
                self.on_step("exchanging gradients")
            loss.backward()  # type: ignore[no-untyped-call]
            self._is_syncing = False
        return loss.detach().to(widest_float(self.device))


def _sum(losses: Sequence[Tensor]) -> Tensor:
    """Return the sum of losses in the order of the batches, on their device."""
    return reduce(torch.add, losses)


def split_batch(
    source: Int[Tensor, "rows source"],
    target: Int[Tensor, "rows target"],
    num_parts: int,
    guide: Float[Tensor, "rows target source"] | None = None,
) -> Iterator[tuple[Int[Tensor, "_ source"], Int[Tensor, "_ target"], Float[Tensor, "_ target source"] | None]]:
    """Split a batch into `num_parts` microbatches of almost equal size, or fewer if there are fewer rows."""
    num_parts = min(num_parts, source.shape[0])
    guides = [None] * num_parts if guide is None else guide.tensor_split(num_parts)
    yield from zip(source.tensor_split(num_parts), target.tensor_split(num_parts), guides, strict=True)
