"""All that a training is after an update: its tensors by name, and its counters as plain numbers."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from dragoman.data.durable import FileInfo


@runtime_checkable
class Trained(Protocol):
    """What of a trainer makes its state."""

    config: Any
    model: Any
    plain: Any
    optimizer: Any
    moving: Any
    best: Any
    recent: Any
    guard: Any
    pace: Any
    gradients: Any
    agreed: Any
    snapshots: Any
    clock: Callable[[], float]
    update: int
    elapsed: float
    begin: float


def tensors(trainer: Trained) -> dict[str, Tensor]:
    """Every tensor of the state, the very ones that are trained: what is loaded into them is in place at once."""
    named = dict(trainer.model.named_parameters())
    found = {f"model.{name}": weight.detach() for name, weight in named.items()}
    for name, weight in named.items():
        found |= {f"adam.{name}.{key}": value for key, value in trainer.optimizer.state[weight].items()}
    if trainer.moving:
        found |= {f"moving.{name}": weight for name, weight in trainer.moving.weights.items()}
    return found | {f"best.{name}": weight for name, weight in trainer.best.weights.items()}


def numbers(trainer: Trained) -> dict[str, Any]:
    """Everything else, as JSON can hold it: floats come back to the last bit."""
    best = trainer.best
    scores = {name: score for name, score in best.scores.items() if isinstance(score, int | float)}  # samples are told
    return {
        "update": trainer.update,
        "elapsed": trainer.elapsed,
        "moving": trainer.moving.num_updates if trainer.moving else 0,
        "usual": list(trainer.guard.usual),
        "in_a_row": trainer.guard.in_a_row,
        "pieces": trainer.agreed.pieces,
        "updates": trainer.config.stop.updates,
        "last": trainer.pace.last,
        "marks": [list(mark) for mark in trainer.pace.marks],
        "best": {"which": best.which, "scores": scores, "since": best.since},
        "recent": asdict(trainer.recent),
        "snapshots": [info.model_dump(mode="json") for info in trainer.snapshots.written],
    }


def restore(trainer: Trained, saved: dict[str, Any]) -> None:
    """Give a new trainer the counters of another; and room for the tensors that a new one has none of."""
    trainer.update, trainer.elapsed = saved["update"], saved["elapsed"]
    trainer.begin = trainer.clock() - trainer.elapsed
    if trainer.moving:
        trainer.moving.num_updates = saved["moving"]
    trainer.guard.usual.extend(saved["usual"])
    trainer.guard.in_a_row = saved["in_a_row"]
    trainer.gradients.pieces = saved["pieces"]
    trainer.agreed = replace(trainer.agreed, pieces=saved["pieces"])
    if saved["updates"] == trainer.config.stop.updates:  # else as many as are asked for now
        trainer.pace.last = saved["last"]
    trainer.pace.marks = [(update, elapsed) for update, elapsed in saved["marks"]]
    best = saved["best"]
    trainer.best.which, trainer.best.scores, trainer.best.since = best["which"], best["scores"], best["since"]
    if best["which"]:
        named = trainer.plain.named_parameters()
        trainer.best.weights = {name: torch.empty_like(weight.detach()) for name, weight in named}
    for name, value in saved["recent"].items():
        setattr(trainer.recent, name, value)
    trainer.snapshots.written = [FileInfo.model_validate(info) for info in saved["snapshots"]]
