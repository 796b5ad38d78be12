"""What if a head had looked elsewhere: attention switched off, made uniform, permuted or forced, and decoded again.

Interventions are data, and a list of them is kept as JSON. They apply in their order, each to what the ones before it
left. All depend on the step and not on how it is computed, so decoding and the forced pass behind a trace see the same.

Heads are redundant: a model that writes the same without a head has not shown that the head does nothing.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from pydantic import Field, TypeAdapter
from torch import Tensor, nn

from dragoman.attention.tap import Edit, Sight, Tap, Weights, seams
from dragoman.config import Config
from dragoman.inspection.capture import capture
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervention import Given, Intervention, Interventions, Looking, Off, Permuted, Uniform
from dragoman.inspection.trace import Trace, kind_of

_LIST: Final[TypeAdapter[tuple[Intervention, ...]]] = TypeAdapter(tuple[Intervention, ...])


def to_json(interventions: Interventions) -> str:
    """A list, to be kept."""
    return _LIST.dump_json(tuple(interventions)).decode()


def from_json(text: str) -> tuple[Off | Uniform | Permuted | Looking | Given, ...]:
    """A list that was kept."""
    return _LIST.validate_json(text)


def intervene(
    inspector: Inspector,
    text: str,
    interventions: Interventions,
    target: str | None = None,
    *,
    alternatives: int = 5,
    history: bool = False,
) -> Trace:
    """What the model does with a source under these interventions; it writes anew, or the target is the one given."""
    model, read = inspector.model, inspector.read(text)
    edit = edit_of(model, interventions)
    result = None
    if target is None:
        with Tap(model, edit):
            result = inspector.search(read, keep_history=history)
        written = inspector.written(result)
    else:
        written = inspector.forced(target)
    with Tap(model, edit):
        trace = inspector.capture(read, written, result, alternatives=alternatives)
    return replace(trace, interventions=tuple(interventions))


def places(text: str, names: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """Where to intervene, as it is typed: decoder.layers.2.cross_attention.1,encoder.layers.0 is head 1 of the first
    and every head of the other. The names are those of the model's attentions.
    """
    known = list(names)
    found: dict[str, tuple[int, ...] | None] = {}
    for place in (part.strip() for part in text.split(",")):
        where, _, head = place.rpartition(".")
        if any(_is_at(name, place) for name in known):
            found[place] = None
        elif head.isdecimal() and (where in known or any(kind_of(name) == where for name in known)):
            before = found.get(where, ())
            found[where] = None if before is None else (*before, int(head))
        else:
            raise ValueError(f"there is no attention at {place!r}; the model has: {', '.join(known) or 'none'}")
    return found


def edit_of(model: nn.Module, interventions: Interventions) -> Edit:
    """The edit of a tap, which must be a new one for each pass."""
    names = [name for name, _ in seams(model)]
    by_name: dict[str, list[Off | Uniform | Permuted | Looking | Given]] = {}
    for one in interventions:
        matched = [name for name in names if _is_at(name, one.where)]
        if not matched:
            raise ValueError(f"there is no attention at {one.where!r}; the model has: {', '.join(names) or 'none'}")
        for name in matched:
            by_name.setdefault(name, []).append(one)

    def edit(sight: Sight) -> Weights:
        weights = sight.weights
        for one in by_name.get(sight.name, []):
            chosen = _chosen(sight.name, one.heads, weights)
            weights = torch.where(chosen, _edited(one, sight, weights), weights)
        return weights

    return edit


def _is_at(name: str, where: str) -> bool:
    if where in ("encoder", "decoder", "cross"):
        return kind_of(name) == where
    return name == where or name.startswith(f"{where}.")


def _chosen(name: str, heads: tuple[int, ...] | None, weights: Tensor) -> Tensor:
    """[heads, 1, 1], True for those that are meant."""
    num_heads = weights.shape[1]
    numbers = range(num_heads) if heads is None else heads
    if any(head >= num_heads for head in numbers):
        raise ValueError(f"{name} has {num_heads} heads, counted from 0: there is no head {max(numbers)}")
    chosen = torch.zeros(num_heads, 1, 1, dtype=torch.bool, device=weights.device)
    chosen[list(numbers)] = True
    return chosen


def _edited(one: Off | Uniform | Permuted | Looking | Given, sight: Sight, weights: Tensor) -> Tensor:
    shown = torch.ones_like(weights, dtype=torch.bool) if sight.visible is None else sight.visible.expand_as(weights)
    match one:
        case Off():
            return torch.zeros_like(weights)
        case Uniform():
            return shown / shown.sum(-1, keepdim=True).clamp_min(1).to(weights.dtype)
        case Permuted():
            return _permuted(weights, shown, sight, one.seed)
        case Looking():
            return _looking(weights, shown, sight, one.position)
        case Given():
            return _given(weights, shown, sight, one.matrix)


def _permuted(weights: Tensor, shown: Tensor, sight: Sight, seed: int) -> Tensor:
    """Each head of each step draws a number for each key, and the visible ones are put in that order. The numbers of
    the first keys are the same however many follow, so it does not matter how the step is computed.
    """
    heads, queries, keys = weights.shape[1:]
    place = zlib.crc32(sight.name.encode())
    drawn = np.empty((heads, queries, keys), np.float32)
    for head in range(heads):
        for i in range(queries):
            drawn[head, i] = np.random.default_rng([seed, place, head, sight.position + i]).random(keys)
    lots = torch.from_numpy(drawn).to(weights.device).expand(weights.shape).masked_fill(~shown, 2.0)
    order = lots.argsort(dim=-1, stable=True)
    seen_first = (~shown).long().argsort(dim=-1, stable=True)
    return torch.zeros_like(weights).scatter(-1, seen_first, weights.gather(-1, order))


def _looking(weights: Tensor, shown: Tensor, sight: Sight, position: int) -> Tensor:
    keys = weights.shape[-1]
    if position >= keys:
        if kind_of(sight.name) == "decoder":
            return weights
        raise ValueError(f"{sight.name} has {keys} keys, counted from 0: it cannot look at {position}")
    there = torch.zeros_like(weights)
    there[..., position] = 1.0
    return torch.where(shown[..., position, None], there, weights)


def _given(weights: Tensor, shown: Tensor, sight: Sight, matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    keys, made = weights.shape[-1], weights.clone()
    grows = kind_of(sight.name) == "decoder"
    for i in range(weights.shape[-2]):
        if sight.position + i >= len(matrix):
            break
        row = matrix[sight.position + i]
        if len(row) != keys and not grows:
            raise ValueError(f"the matrix for {sight.name} has {len(row)} columns, but there are {keys} keys")
        told = weights.new_tensor([*row[:keys], *[0.0] * (keys - len(row))])
        if any(row[keys:]) or bool(((told > 0) & ~shown[..., i, :]).any()):
            raise ValueError(f"row {sight.position + i} of the matrix for {sight.name} weighs keys it cannot see")
        made[..., i, :] = told
    return made


class Badge(Config):
    """How much of what was written would still be written if cross-attention had looked elsewhere (Moradi et al.,
    2019): of the target tokens that were the most probable ones of their steps, those that still are, after the same
    prefix, with all of cross-attention permuted or uniform. EOS counts as a token.
    """

    num_written: int = Field(ge=1, description="target tokens, whether they were the most probable ones or not")
    num_tokens: int = Field(ge=0, description="target tokens that were the most probable ones")
    kept_permuted: int = Field(ge=0)
    kept_uniform: int = Field(ge=0)
    num_sentences: int = Field(ge=1)
    seed: int = Field(ge=0, description="of the permutation")

    @property
    def text(self) -> str:
        """To stand beside a map."""
        if not self.num_tokens:
            return f"none of the {self.num_written} tokens is the model's first choice: there is nothing to count"
        tokens, be = ("token", "is") if self.num_tokens == 1 else ("tokens", "are")
        return (
            f"of the {self.num_tokens} {tokens} (of {self.num_written}) that {be} the model's first choice, "
            f"{self.kept_permuted} still {be} when cross-attention is permuted, {self.kept_uniform} when it is uniform"
        )


def badge(inspector: Inspector, traces: Sequence[Trace], seed: int = 0) -> Badge:
    """The counterfactual badge of some traces of this model, counted together."""
    if not traces:
        raise ValueError("there are no traces to count tokens in: give at least one")
    numbers = np.zeros(3, np.int64)
    for trace in traces:
        first = _on_top(inspector, trace, [])
        permuted = _on_top(inspector, trace, [Permuted(where="cross", seed=seed)])
        uniform = _on_top(inspector, trace, [Uniform(where="cross")])
        numbers += [first.sum(), (first & permuted).sum(), (first & uniform).sum()]
    tokens, kept_permuted, kept_uniform = numbers.tolist()
    return Badge(
        num_written=sum(len(trace.target) for trace in traces),
        num_tokens=tokens,
        kept_permuted=kept_permuted,
        kept_uniform=kept_uniform,
        num_sentences=len(traces),
        seed=seed,
    )


def _on_top(inspector: Inspector, trace: Trace, interventions: Interventions) -> np.ndarray:
    """Which target tokens are the most probable ones of their steps."""
    with Tap(inspector.model, edit_of(inspector.model, interventions)):
        seen = capture(inspector.model, trace.source.ids, trace.target.ids, alternatives=1)
    return np.asarray(seen.alternative_ids[:, 0] == np.array(trace.target.ids))
