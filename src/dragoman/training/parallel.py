"""The processes that train one model together: who is who, and sums over all of them. Alone, it does nothing."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

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

    def wrap(self, module: nn.Module) -> nn.Module:
        """Let the gradients of a module be averaged over all processes by its backward pass."""
        if self.size == 1:
            return module
        return DistributedDataParallel(module, gradient_as_bucket_view=True)

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Within it, gradients are only gathered here: they are averaged once, with the last batch of an update."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def sums(self, numbers: list[float]) -> list[float]:
        """Each number summed over all processes, in double precision."""
        if self.size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

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
