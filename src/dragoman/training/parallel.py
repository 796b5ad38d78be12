"""A group of processes that train one model with torch.distributed. A single process does not communicate."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from dragoman.device import HOST_BACKEND, cpu, process_backend
from dragoman.training.config import TIMEOUT, Parallel, parse_duration

T = TypeVar("T")

LONG_TIMEOUT_S: Final = 1800.0
"""Seconds that processes wait while one of them prepares the text, or while a checkpoint is written."""


@dataclass(frozen=True)
class Group:
    """A group of training processes, and the rank of this process in the group."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=cpu)
    """The device on which this process computes."""
    timeout: float = parse_duration(TIMEOUT)
    """Seconds that a process waits for the others before it raises an error."""

    @property
    def is_first(self) -> bool:
        """True in the process that writes files and reports events."""
        return self.rank == 0

    def wrap(self, module: nn.Module, parts: Sequence[nn.Module], how: Parallel) -> nn.Module:
        """Return a module whose backward pass averages the gradients over all processes.

        With `fsdp`, each process keeps a shard of every weight and its optimizer state. The weights of each module
        in `parts` are gathered when the module is called; all other weights stay gathered for the whole pass. With
        `hsdp`, the processes of each machine share the weights, and machines only exchange gradients.
        """
        if self.world_size == 1:
            return module
        if how == "ddp":
            return DistributedDataParallel(module, gradient_as_bucket_view=True)
        # Linear layers return views. The warning is about views changed in place; a test shows that none of ours is.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
        kind, local = next(module.parameters()).device.type, self._num_sharing(how)
        if how == "hsdp":
            shape = (self.world_size // local, local)
            mesh = init_device_mesh(kind, shape, mesh_dim_names=("machines", "processes"))
        else:
            mesh = init_device_mesh(kind, (local,))
        for part in parts:
            fully_shard(part, mesh=mesh)
        fully_shard(module, mesh=mesh)
        return module

    def _num_sharing(self, how: Parallel) -> int:
        """Return the number of processes that share the weights: all, or with `hsdp` those of one machine."""
        local = int(os.environ.get("LOCAL_WORLD_SIZE", self.world_size))
        if how == "hsdp" and self.world_size % local:
            uneven = f"{self.world_size} processes with {local} on this machine"
            raise ValueError(f"{uneven} are uneven: for parallel: hsdp, start the same number on each machine")
        return local if how == "hsdp" else self.world_size

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
        others: dist.ProcessGroup = dist.new_group(backend=HOST_BACKEND, timeout=timedelta(seconds=LONG_TIMEOUT_S))
        return others


def gather_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the full tensors of weights that may be sharded; every process must call this function."""
    return {name: full_tensor(weight) for name, weight in weights.items()}


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a DTensor, or the tensor itself."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextmanager
def init_group(device: torch.device | None = None, timeout: float = parse_duration(TIMEOUT)) -> Iterator[Group]:
    """Join the process group that the environment variables describe; without RANK, yield a group of one process.

    `device` is the device of this process, by default the CPU. Numbers and objects are exchanged through host memory.
    A process that waits for another for more than `timeout` seconds raises RuntimeError.
    """
    device = device or cpu()
    if "RANK" not in os.environ:
        yield Group(device=device)
        return
    dist.init_process_group(process_backend(device), timeout=timedelta(seconds=timeout))
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), device, timeout)
    finally:
        dist.destroy_process_group()
