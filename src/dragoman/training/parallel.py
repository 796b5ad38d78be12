"""The processes that train one model together: who is who, and sums over all of them. Alone, it does nothing."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from dragoman.training.config import Parallel

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The processes, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """The one that writes and speaks."""
        return self.rank == 0

    def wrap(self, module: nn.Module, parts: Sequence[nn.Module], how: Parallel) -> nn.Module:
        """Let the gradients of a module be averaged over all processes by its backward pass.

        With `fsdp`, each process keeps a share of every weight, and of all that goes with it; the `parts` are gathered
        one by one when their turn comes, what is in none of them for the whole pass.
        """
        if self.size == 1:
            return module
        if how == "ddp":
            return DistributedDataParallel(module, gradient_as_bucket_view=True)
        # Linear layers return views. What is said about those changed in place is true of none of ours: tested.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        mesh = init_device_mesh("cpu", (self.size,))
        for part in parts:
            fully_shard(part, mesh=mesh)
        fully_shard(module, mesh=mesh)
        return module

    @contextmanager
    def apart(self, module: nn.Module) -> Iterator[None]:
        """Within it, gradients are only gathered here: they are averaged once, with the last batch of an update."""
        if isinstance(module, DistributedDataParallel):
            with module.no_sync():
                yield
        elif isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(False)
            try:
                yield
            finally:
                module.set_requires_gradient_sync(True)
        else:
            yield

    def sums(self, numbers: list[float]) -> list[float]:
        """Each number summed over all processes, in double precision."""
        if self.size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def another_line(self) -> dist.ProcessGroup | None:
        """A second connection between the same processes, for what is said beside the training; None alone."""
        return dist.new_group(backend="gloo") if self.size > 1 else None

    def said_by_first(self, thing: T) -> T:
        """What the first process has there, whatever the others have."""
        if self.size == 1:
            return thing
        box = [thing]
        dist.broadcast_object_list(box)
        return box[0]

    def gathered(self, thing: T) -> list[T]:
        """What every process has there, in order of rank."""
        if self.size == 1:
            return [thing]
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, thing)
        return box


def whole(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights that are shared out over processes, gathered; others as they are. Every process must call it."""
    return {name: full(weight) for name, weight in weights.items()}


def full(tensor: Tensor) -> Tensor:
    """The tensor that a share is of."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextmanager
def joined() -> Iterator[Group]:
    """The group that the launcher's environment names; a group of one if it names none."""
    if "RANK" not in os.environ:
        yield Group()
        return
    dist.init_process_group("gloo")
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
