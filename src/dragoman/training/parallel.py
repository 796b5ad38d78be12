"""A group of processes that train one model with torch.distributed. A single process does not communicate."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from dragoman.training.config import TIMEOUT, Parallel, parse_duration

T = TypeVar("T")

LONG_TIMEOUT_S: Final = 1800.0
"""Seconds that processes wait while one of them prepares the text, or while a checkpoint is written."""


@dataclass(frozen=True)
class Group:
    """A group of training processes, and the rank of this process in the group."""

    rank: int = 0
    world_size: int = 1
    timeout: float = parse_duration(TIMEOUT)
    """Seconds that a process waits for the others before it raises an error."""

    @property
    def is_first(self) -> bool:
        """True in the process that writes files and reports events."""
        return self.rank == 0

    def wrap(self, module: nn.Module, parts: Sequence[nn.Module], how: Parallel) -> nn.Module:
        """Return a module whose backward pass averages the gradients over all processes.

        With `fsdp`, each process keeps a shard of every weight and its optimizer state. The weights of each module
        in `parts` are gathered when the module is called; all other weights stay gathered for the whole pass.
        """
        if self.world_size == 1:
            return module
        if how == "ddp":
            return DistributedDataParallel(module, gradient_as_bucket_view=True)
        # Linear layers return views. The warning is about views changed in place; a test shows that none of ours is.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        mesh = init_device_mesh("cpu", (self.world_size,))
        for part in parts:
            fully_shard(part, mesh=mesh)
        fully_shard(module, mesh=mesh)
        return module

    @contextmanager
    def no_sync(self, module: nn.Module) -> Iterator[None]:
        """Accumulate gradients within the block without averaging them over processes."""
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

    def all_reduce(self, numbers: list[float]) -> list[float]:
        """Return each number summed over all processes, in double precision."""
        if self.world_size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def broadcast_from_first(self, value: T, process_group: dist.ProcessGroup | None = None) -> T:
        """Return the first process's value in every process; the default is the group of all exchanges."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, group=process_group)
        return values[0]

    def all_gather(self, value: T, process_group: dist.ProcessGroup | None = None) -> list[T]:
        """Return the value of every process, in order of rank; the default is the group of all exchanges."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=process_group)
        return values

    def new_process_group(self) -> dist.ProcessGroup | None:
        """Return another process group of all processes, with a long timeout; None if there is only one process."""
        if self.world_size == 1:
            return None
        return dist.new_group(backend="gloo", timeout=timedelta(seconds=LONG_TIMEOUT_S))


def gather_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the full tensors of weights that may be sharded; every process must call this function."""
    return {name: full_tensor(weight) for name, weight in weights.items()}


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a DTensor, or the tensor itself."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextmanager
def init_group(timeout: float = parse_duration(TIMEOUT)) -> Iterator[Group]:
    """Join the process group that the environment variables describe; without RANK, yield a group of one process.

    A process that waits for another for more than `timeout` seconds raises RuntimeError.
    """
    if "RANK" not in os.environ:
        yield Group()
        return
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), timeout)
    finally:
        dist.destroy_process_group()
