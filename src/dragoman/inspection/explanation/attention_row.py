"""Capture of one attention row in a forward pass: query, keys, values, weights and module calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn

from dragoman.attention.tap import Sight, Tap
from dragoman.decoding.decode_loop import require_eval
from dragoman.device import device_of
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS


class ModuleCall(NamedTuple):
    """The arguments and the result of one call of a module."""

    inputs: tuple[Any, ...]
    output: Any


class InputToken(NamedTuple):
    """The input token of the explained attention row."""

    id: int
    piece: str
    about: str
    """Sentences about the relation of the token to the explained word."""


@dataclass(frozen=True, eq=False)
class RowCapture:
    """One row of one attention layer, for all heads, as the model computed it, in double precision."""

    query: Float[ndarray, "heads d_query"]
    key: Float[ndarray, "heads keys d_key"]
    """The keys as prepared for the score function."""
    value: Float[ndarray, "heads keys d_v"]
    weights: Float[ndarray, "heads keys"]
    visible: Bool[ndarray, " keys"]
    calls: Mapping[str, Sequence[ModuleCall]]
    """The calls of the watched modules: one for a whole sequence, or one per step in a recurrent model."""


@dataclass(frozen=True, eq=False)
class HeadArithmetic:
    """The arithmetic of one head for one row, recomputed in double precision."""

    query: Float[ndarray, " d_query"]
    keys: Float[ndarray, "keys d_key"]
    values: Float[ndarray, "keys d_v"]
    scores: Float[ndarray, " keys"]
    """The inputs of the softmax, including those of hidden keys."""
    visible: Bool[ndarray, " keys"]
    weights: Float[ndarray, " keys"]
    output: Float[ndarray, " d_v"]


@torch.inference_mode()
def capture_row(
    model: Seq2Seq[Any, Any],
    source: Sequence[int],
    target: Sequence[int] | None,
    name: str,
    row: int,
    watch: Iterable[str] = (),
) -> RowCapture:
    """Capture one row of the named attention in a pass over a source and, if given, a target."""
    require_eval(model)
    device = device_of(model)
    sights: list[Sight] = []

    def keep(sight: Sight) -> None:
        if sight.name == name and sight.position <= row < sight.position + sight.weights.shape[-2]:
            sights.append(sight)

    with record_calls(model, watch) as calls, Tap(model, edit=keep):
        memory = model.encode(torch.tensor([source], device=device))
        if target is not None:
            model.decode(memory, torch.tensor([[BOS, *target[:-1]]], device=device))
    (sight,) = sights
    if not all(part.isfinite().all() for part in (sight.weights, *sight.vectors)):
        raise ValueError("the model computes NaN or infinity (damaged weights or diverged training): use another model")
    at, shape = row - sight.position, sight.weights.shape
    visible = torch.ones(shape, dtype=torch.bool) if sight.visible is None else sight.visible.expand(shape)
    numbers = (sight.vectors.query[0, :, at], sight.vectors.key[0], sight.vectors.value[0], sight.weights[0, :, at])
    query, key, value, weights = map(as_array, numbers)
    return RowCapture(query, key, value, weights, visible[0, 0, at].cpu().numpy(), calls)


@contextmanager
def record_calls(model: nn.Module, names: Iterable[str]) -> Iterator[dict[str, list[ModuleCall]]]:
    """Record the inputs and the output of every call of the named modules."""
    calls: dict[str, list[ModuleCall]] = {name: [] for name in names}

    def record(name: str, _module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        calls[name].append(ModuleCall(inputs, output))

    hooks = [model.get_submodule(name).register_forward_hook(partial(record, name)) for name in calls]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def as_array(tensor: Tensor) -> Float[ndarray, "..."]:
    """Return the tensor as a numpy array in double precision."""
    return np.asarray(tensor.detach().cpu().double().numpy())
