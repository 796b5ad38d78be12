"""Taps: read or replace every attention map of a model by its qualified name.

    with Tap(model) as tap:
        model(source, target)
    tap["decoder.layers.2.cross_attention"]      # [batch, heads, queries, keys]

A tap belongs to the thread (precisely, the context) that opened it, not to the model. Nothing is stored on the modules.
A tap does not record other threads that use the same model. Without a tap, fused kernels compute no weights at all.
Taps nest. The outer tap acts first, so a reading tap inside an editing tap reads the edited weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention.kinds import kind_of

Weights = Float[Tensor, "batch heads queries keys"]


class Seam(nn.Module):
    """A module whose attention weights a tap can read and replace."""

    def tap(self) -> "Tap | None":
        """Return the innermost open tap that covers this module, or None."""
        if not _num_open:  # compiled graphs can read a number, but no ContextVar
            return None
        tap = _open_tap.get()
        return tap if tap is not None and tap.covers(self) else None


class AttentionVectors(NamedTuple):
    """Queries, keys and values, split into heads. The keys are the output of the score's `prepare`."""

    query: Float[Tensor, "batch heads queries d_query"]
    key: Float[Tensor, "batch heads keys d_key"]
    value: Float[Tensor, "batch heads keys d_v"]


@dataclass(frozen=True)
class Sight:
    """The data of one call of an attention module, passed to the `edit` function of a tap."""

    name: str
    """The qualified name of the attention."""
    weights: Weights
    """The weights after the softmax and any re-weighting, before dropout; part of the autograd graph."""
    visible: Bool[Tensor, "..."] | None
    """The mask of keys that each query may see; None: all keys."""
    position: int
    """Position of the first query: 0 in teacher forcing, the number of steps done in step-by-step decoding."""
    vectors: AttentionVectors
    """The queries, keys and values of the call."""


Edit = Callable[[Sight], Weights | None]
"""Function that returns the weights to use instead, or None to keep the weights."""


class Tap(Mapping[str, Weights]):
    """A context manager that records attention maps by qualified name; `edit` replaces the weights.

    Step-by-step decoding calls each attention module once per step; the map then has the steps stacked along the query
    axis, with zeros for later keys. Beam search moves rows between steps: use `steps` for the maps of single steps, or
    score the chosen output under a tap for the whole map. Use one tap per pass: two passes under one tap count as steps
    of one pass.
    """

    def __init__(self, model: nn.Module, edit: Edit | None = None) -> None:
        self._names = {module: name for name, module in seams(model)}
        self._edit = edit
        self._steps: dict[str, list[Weights]] = {}
        self._outer: Tap | None = None
        self._token: Token[Tap | None] | None = None

    def __enter__(self) -> "Tap":
        if self._token is not None:
            raise ValueError("this tap is already open: create another Tap")
        self._outer = _open_tap.get()
        self._token = _open_tap.set(self)
        _count_open(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _count_open(-1)
        _open_tap.reset(self._token)
        self._token = self._outer = None

    def covers(self, module: Seam) -> bool:
        """Return True if this tap or an outer tap records the attention module."""
        return module in self._names or (self._outer is not None and self._outer.covers(module))

    def see(self, module: Seam, weights: Weights, visible: Tensor | None, vectors: AttentionVectors) -> Weights:
        """Record the weights of a call and return the weights to use. Called by the attention module."""
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
        """Return the recorded maps of an attention module, one per call, in order."""
        if name not in self._steps:
            known = ", ".join(self._names.values()) or "none"
            raise KeyError(f"no attention map named {name!r} was recorded: give another name; the model has: {known}")
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
_num_open = 0
"""The number of open taps in all threads."""
_counting = Lock()


def _count_open(change: int) -> None:
    global _num_open
    with _counting:
        _num_open += change


def seams(model: nn.Module) -> Iterator[tuple[str, Seam]]:
    """Yield every attention module of a model with its qualified name, the path of its parent module."""
    for path, module in model.named_modules():
        if isinstance(module, Seam):
            yield path.rpartition(".")[0] or path, module


def cross_attentions(model: nn.Module) -> list[str]:
    """Return the module names of all cross-attentions, lowest layer first."""
    return [name for name, _ in seams(model) if kind_of(name) == "cross"]


def _same_shape(name: str, edited: Tensor, weights: Tensor) -> Tensor:
    if edited.shape != weights.shape:
        raise ValueError(
            f"the edit of {name} returned shape {tuple(edited.shape)}: return shape {tuple(weights.shape)}"
        )
    return edited


def _stack(name: str, steps: list[Tensor]) -> Weights:
    rows = {step.shape[0] for step in steps}
    if len(rows) > 1:
        raise ValueError(
            f"the steps of {name} have different numbers of rows ({sorted(rows)}), as in beam search: "
            "read single steps with steps(), or score the chosen output under a tap"
        )
    if len(steps) == 1:
        return steps[0]
    num_keys = max(step.shape[-1] for step in steps)
    return torch.cat([F.pad(step, (0, num_keys - step.shape[-1])) for step in steps], dim=-2)
