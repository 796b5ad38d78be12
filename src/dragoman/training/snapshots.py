"""Weights put aside while training, and their average (section 6.1)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from dragoman.data.durable import FileInfo, damage, write_durably
from dragoman.training.average import Weights


class Snapshots:
    """The last few, each a file."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep
        self.written: list[FileInfo] = []
        """What each must be, byte for byte; oldest first."""

    def save(self, weights: Weights, update: int) -> None:
        """Put aside the weights after this update; the oldest goes when there are too many."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = save({name: weight.contiguous() for name, weight in weights.items()})
        path = self.folder / f"update-{update:09}.safetensors"
        self.written.append(write_durably(path, lambda sink: sink.write(content)))
        while len(self.written) > self.keep:
            (self.folder / self.written.pop(0).file).unlink(missing_ok=True)

    def clear(self) -> None:
        """Those of an earlier run have no part in this one's average."""
        for file in self.folder.glob("update-*.safetensors"):
            file.unlink()

    def intact(self) -> list[Path]:
        """Those that are still what was written, oldest first: a damaged one has no part in the average."""
        return [self.folder / info.file for info in self.written if damage(self.folder, info) is None]


def mean(files: Sequence[Path]) -> dict[str, Tensor]:
    """The average of weights in files, summed in float64, one in memory at a time."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, weight in load_file(file).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(files)).to(torch.float32) for name, weight in total.items()}
