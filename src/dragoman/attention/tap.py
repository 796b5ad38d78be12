"""The one seam into attention: read every map of any model by its qualified name, or replace it.

    with Tap(model) as tap:
        model(source, target)
    tap["decoder.layers.2.cross_attention"]      # [batch, heads, queries, keys]

A tap belongs to the thread (more exactly: the context) that opened it, not to the model: nothing is stored on
the modules, another thread that decodes with the same model is not seen, and without a tap no weights exist at all.
Taps nest. The outer one acts first, so a reading tap inside an editing one reads the edited weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

Weights = Float[Tensor, "batch heads queries keys"]


class Seam(nn.Module):
    """A module whose attention weights a tap can read and replace."""

    def tap(self) -> "Tap | None":
        """The innermost open tap that covers this module, if there is one."""
        tap = _open_tap.get()
        return tap if tap is not None and tap.covers(self) else None


class Vectors(NamedTuple):
    """Queries, keys and values, split into heads. The keys have gone through the score's `prepare`."""

    query: Float[Tensor, "batch heads queries d_query"]
    key: Float[Tensor, "batch heads keys d_key"]
    value: Float[Tensor, "batch heads keys d_v"]


@dataclass(frozen=True)
class Sight:
    """What one call of one attention showed: the argument of an edit."""

    name: str
    """Where: the qualified name of the attention."""
    weights: Weights
    """After the softmax and any re-weighting, before dropout; part of the autograd graph."""
    visible: Bool[Tensor, "..."] | None
    """Which keys each query may see, as given to the attention; None = all."""
    position: int
    """Position of the first query: 0 in teacher forcing, the number of steps done in step-by-step decoding."""
    vectors: Vectors
    """What was compared and what is mixed, as the attention was given it."""


Edit = Callable[[Sight], Weights | None]
"""Gives the weights to use instead, or None to leave them as they are."""


class Tap(Mapping[str, Weights]):
    """Reads attention maps while it is open; with `edit`, replaces them too.

    As a mapping it goes from qualified name to map. Step-by-step decoding calls each attention once per step; its map
    is the steps stacked along the query axis, with zero for the keys that came later. Beam search moves rows between
    steps, so there `steps` gives the single maps, and a forced pass over the chosen output gives the whole one.
    Each pass wants a tap of its own: two under one tap count as the steps of one.
    """

    def __init__(self, model: nn.Module, edit: Edit | None = None) -> None:
        self._names = {module: name for name, module in seams(model)}
        self._edit = edit
        self._steps: dict[str, list[Weights]] = {}
        self._outer: Tap | None = None
        self._token: Token[Tap | None] | None = None

    def __enter__(self) -> "Tap":
        if self._token is not None:
            raise ValueError("this tap is already open; make another one")
        self._outer = _open_tap.get()
        self._token = _open_tap.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _open_tap.reset(self._token)
        self._token = self._outer = None

    def covers(self, module: Seam) -> bool:
        """Whether this tap or one around it looks at the module."""
        return module in self._names or (self._outer is not None and self._outer.covers(module))

    def see(self, module: Seam, weights: Weights, visible: Tensor | None, vectors: Vectors) -> Weights:
        """Called by the attention itself: keeps the weights and gives those to go on with."""
        if self._outer is not None and self._outer.covers(module):
            weights = self._outer.see(module, weights, visible, vectors)
        name = self._names.get(module)
        if name is None:
            return weights
        steps = self._steps.setdefault(name, [])
        if self._edit is not None:
            position = sum(step.shape[-2] for step in steps)
            edited = self._edit(Sight(name, weights, visible, position, vectors))
            weights = weights if edited is None else _same_shape(name, edited, weights)
        steps.append(weights.detach())
        return weights

    def steps(self, name: str) -> list[Weights]:
        """The map of each single call, in order."""
        if name not in self._steps:
            known = ", ".join(self._names.values()) or "none"
            raise KeyError(f"no attention named {name!r} was used while the tap was open; the model has: {known}")
        return list(self._steps[name])

    def __getitem__(self, name: str) -> Weights:
        return _stack(name, self.steps(name))

    def __contains__(self, name: object) -> bool:
        return name in self._steps

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


_open_tap: ContextVar[Tap | None] = ContextVar("open_tap", default=None)


def seams(model: nn.Module) -> Iterator[tuple[str, Seam]]:
    """Every attention of a model with its qualified name: the path of the module that owns it."""
    for path, module in model.named_modules():
        if isinstance(module, Seam):
            yield path.rpartition(".")[0] or path, module


def _same_shape(name: str, edited: Tensor, weights: Tensor) -> Tensor:
    if edited.shape != weights.shape:
        raise ValueError(
            f"the edit of {name} gave shape {tuple(edited.shape)} for weights of shape {tuple(weights.shape)}"
        )
    return edited


def _stack(name: str, steps: list[Tensor]) -> Weights:
    rows = {step.shape[0] for step in steps}
    if len(rows) > 1:
        raise ValueError(
            f"the steps of {name} have different rows ({sorted(rows)}), as beam search makes them; "
            "read them one by one with steps(), or tap a forced pass over the chosen output"
        )
    if len(steps) == 1:
        return steps[0]
    num_keys = max(step.shape[-1] for step in steps)
    return torch.cat([F.pad(step, (0, num_keys - step.shape[-1])) for step in steps], dim=-2)
