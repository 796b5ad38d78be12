"""Weight averaging: an exponential moving average, and the average of snapshots (section 6.1 of the paper)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dragoman.device import copy_to_host
from dragoman.io.durable import FileInfo, find_damage, write_durably
from dragoman.training.stateful import Stateful

Weights = Mapping[str, Tensor]


class MovingAverage(Stateful):
    """An exponential moving average of a model's weights.

    After n updates the decay is at most (1 + n) / (10 + n), so that the random initial weights soon lose influence.
    """

    state_fields = ("num_updates", "weights")

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        self.weights = copy_weights(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Update the average with the current weights of the model."""
        self.num_updates += 1
        share = 1.0 - min(self.decay, (1.0 + self.num_updates) / (10.0 + self.num_updates))
        torch._foreach_lerp_(list(self.weights.values()), [p.detach() for p in model.parameters()], share)


class Snapshots(Stateful):
    """The last `keep` weight snapshots, with one file per snapshot."""

    state_fields = ("files",)

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep
        self.files: list[FileInfo] = []
        """The name, size and hash of each snapshot file, oldest first."""

    def save(self, weights: Weights, update: int) -> None:
        """Write a snapshot of the weights after an update; remove the oldest snapshot if there are more than `keep`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = save({name: weight.contiguous() for name, weight in weights.items()})
        self.files.append(write_durably(self.folder / f"update-{update:09}.safetensors", content))
        while len(self.files) > self.keep:
            (self.folder / self.files.pop(0).file).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the snapshots of an earlier run."""
        for file in self.folder.glob("update-*.safetensors"):
            file.unlink()

    def intact(self) -> list[Path]:
        """Return the undamaged snapshot files, oldest first."""
        return [self.folder / info.file for info in self.files if find_damage(self.folder, info) is None]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the list of snapshot files."""
        self.files = [FileInfo.model_validate(info) for info in state["files"]]


def average_files(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the average of the weights in several files, computed in float64 with one file in memory at a time."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, weight in load_file(file).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(files)).to(torch.float32) for name, weight in total.items()}


def copy_to_host_memory(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights by name, in host memory, of which accelerators have less."""
    return {name: copy_to_host(weight) for name, weight in model.named_parameters()}


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights by name; a tied weight occurs once."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@torch.no_grad()
def set_weights(model: nn.Module, weights: Weights) -> None:
    """Copy weights into a model that has the same parameter names."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


@torch.no_grad()
def mix_in(model: nn.Module, weights: Weights, share: float) -> None:
    """Replace the weights of a model by their mean with other weights, whose share of the mean is `share`."""
    for name, parameter in model.named_parameters():
        parameter.lerp_(weights[name].to(parameter.device), share)
