"""What one process or several train on the stand-in: python joined.py FOLDER. Prints the losses as JSON."""

import json
import sys
from pathlib import Path

import torch
from toy_run import ToyRun

from dragoman.device import choose_device
from dragoman.training.parallel import init_group

UPDATES = 12
SHARED = {"batches_per_update": 4}  # one for each of four processes


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    found = {}
    with init_group(choose_device("standin")) as group:
        for parallel in ("ddp", "fsdp", "hsdp"):
            changes = {"parallel": parallel, "optimizer": {"clip": 1.0}, "checkpoints": {"every": 6}} | SHARED
            run = ToyRun("standin", "dropout", folder / parallel, UPDATES, group, **changes)
            found[parallel] = {"losses": list(run.losses.values()), "weights": _sum(run), "device": str(group.device)}
        recomputed = ToyRun("standin", "dropout", folder / "r", 3, group, parallel="fsdp", recompute=True, **SHARED)
        found["recompute"] = {"losses": list(recomputed.losses.values())}
    print(json.dumps(found))


def _sum(run: ToyRun) -> float:
    return sum(float(weight.double().abs().sum()) for weight in run.result.weights.values())


if __name__ == "__main__":
    main()
