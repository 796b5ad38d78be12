"""One pass of the model with open eyes: what one attention compared for one row, and what chosen modules did."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn

from dragoman.attention.tap import Sight, Tap
from dragoman.data.vocab import BOS
from dragoman.decoding.walk import require_eval
from dragoman.models.seq2seq import Seq2Seq


class Call(NamedTuple):
    """What a module was given, and what it made of it."""

    given: tuple[Any, ...]
    made: Any


@dataclass(frozen=True, eq=False)
class Look:
    """One row of one attention, in all its heads: the model's own numbers."""

    query: Float[ndarray, "heads d_query"]
    key: Float[ndarray, "heads keys d_key"]
    """As prepared for the score."""
    value: Float[ndarray, "heads keys d_v"]
    weights: Float[ndarray, "heads keys"]
    visible: Bool[ndarray, " keys"]
    calls: Mapping[str, Sequence[Call]]
    """Of the modules that were watched: one in a pass over a whole text, one a step where a model goes step by step."""


@torch.inference_mode()
def look(
    model: Seq2Seq[Any, Any],
    source: Sequence[int],
    target: Sequence[int] | None,
    name: str,
    row: int,
    watch: Iterable[str],
) -> Look:
    """The row of the attention of this name while the model reads a source, and a target if there is one."""
    require_eval(model)
    device = next(model.parameters(), torch.empty(0)).device
    sights: list[Sight] = []

    def keep(sight: Sight) -> None:
        if sight.name == name and sight.position <= row < sight.position + sight.weights.shape[-2]:
            sights.append(sight)

    with watched(model, watch) as calls, Tap(model, edit=keep):
        memory = model.encode(torch.tensor([source], device=device))
        if target is not None:
            model.decode(memory, torch.tensor([[BOS, *target[:-1]]], device=device))
    (sight,) = sights
    if not all(part.isfinite().all() for part in (sight.weights, *sight.vectors)):
        raise ValueError("the model's numbers are not all finite: its training went wrong; choose another model")
    at = row - sight.position
    shape = sight.weights.shape
    visible = torch.ones(shape, dtype=torch.bool) if sight.visible is None else sight.visible.expand(shape)
    return Look(
        query=array(sight.vectors.query[0, :, at]),
        key=array(sight.vectors.key[0]),
        value=array(sight.vectors.value[0]),
        weights=array(sight.weights[0, :, at]),
        visible=visible[0, 0, at].cpu().numpy(),
        calls=calls,
    )


@contextmanager
def watched(model: nn.Module, names: Iterable[str]) -> Iterator[dict[str, list[Call]]]:
    """Keeps, while it is open, what these modules are given and give in this thread."""
    calls: dict[str, list[Call]] = {name: [] for name in names}
    thread = get_ident()

    def keeping(name: str) -> Any:
        def keep(_module: nn.Module, given: tuple[Any, ...], made: Any) -> None:
            if get_ident() == thread:  # else somebody else is using the model
                calls[name].append(Call(given, made))

        return keep

    hooks = [model.get_submodule(name).register_forward_hook(keeping(name)) for name in calls]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def array(tensor: Tensor) -> Float[ndarray, "..."]:
    """In double precision: what is computed again here has no rounding of its own."""
    return np.asarray(tensor.detach().double().cpu().numpy())
