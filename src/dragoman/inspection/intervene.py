"""Apply interventions: switch attention heads off, make them uniform or permute them, and compare predictions.

Interventions apply in order, each to the result of the previous one. They depend only on the decoding step, so that the
search and the teacher-forced pass of a trace are changed in the same way. Heads are redundant: an output that stays the
same without a head does not show that the head does nothing.
"""

import zlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.attention.tap import Edit, Sight, Tap, Weights, seams
from dragoman.inspection.capture import capture
from dragoman.inspection.interventions import HeadsOff, HeadsPermuted, HeadsUniform, Intervention, Interventions, is_at
from dragoman.inspection.trace import Trace
from dragoman.models.seq2seq import Seq2Seq


def edit_of(model: nn.Module, interventions: Interventions) -> Edit:
    """Return the edit function that applies the interventions in a `Tap` on this model."""
    names = [name for name, _ in seams(model)]
    by_name: dict[str, list[Intervention]] = {}
    for change in interventions:
        matched = [name for name in names if is_at(name, change.where)]
        if not matched:
            raise ValueError(f"there is no attention at {change.where!r}: choose from {', '.join(names) or 'none'}")
        for name in matched:
            by_name.setdefault(name, []).append(change)

    def edit(seen: Sight) -> Weights:
        weights = seen.weights
        for change in by_name.get(seen.name, []):
            selected = _select_heads(seen.name, change.heads, weights)
            weights = torch.where(selected, _change(change, seen, weights), weights)
        return weights

    return edit


def _select_heads(name: str, heads: tuple[int, ...] | None, weights: Tensor) -> Tensor:
    """Return a mask [heads, 1, 1] that is True for the heads to change."""
    num_heads = weights.shape[1]
    numbers = range(num_heads) if heads is None else heads
    if any(head >= num_heads for head in numbers):
        raise ValueError(f"there is no head {max(numbers)} in {name}: choose 0 to {num_heads - 1}")
    selected = torch.zeros(num_heads, 1, 1, dtype=torch.bool, device=weights.device)
    selected[list(numbers)] = True
    return selected


def _change(change: Intervention, seen: Sight, weights: Tensor) -> Tensor:
    visible = torch.ones_like(weights, dtype=torch.bool) if seen.visible is None else seen.visible.expand_as(weights)
    match change:
        case HeadsOff():
            return torch.zeros_like(weights)
        case HeadsUniform():
            return visible / visible.sum(-1, keepdim=True).clamp_min(1).to(weights.dtype)
        case HeadsPermuted():
            return _permute(weights, visible, seen, change.seed)


def _permute(weights: Tensor, visible: Tensor, seen: Sight, seed: int) -> Tensor:
    """Permute the weights of each row among the visible keys, by a random number for each head, step and key.

    The random numbers do not depend on how many keys follow, so a full pass and step-by-step decoding agree.
    """
    heads, queries, keys = weights.shape[1:]
    place = zlib.crc32(seen.name.encode())
    drawn = np.empty((heads, queries, keys), np.float32)
    for head in range(heads):
        for i in range(queries):
            drawn[head, i] = np.random.default_rng([seed, place, head, seen.position + i]).random(keys)
    numbers = torch.from_numpy(drawn).to(weights.device).expand(weights.shape).masked_fill(~visible, 2.0)
    order = numbers.argsort(dim=-1, stable=True)
    visible_first = (~visible).long().argsort(dim=-1, stable=True)
    return torch.zeros_like(weights).scatter(-1, visible_first, weights.gather(-1, order))


class Counterfactual(NamedTuple):
    """The number of target tokens that survive permuted or uniform cross-attention (Moradi et al., 2019).

    A token survives if the model ranks it first, after the same prefix, both with unchanged and with changed
    cross-attention. EOS counts as a token.
    """

    num_written: int
    """The number of target tokens."""
    num_tokens: int
    """The number of target tokens that the model ranks first with unchanged attention."""
    kept_permuted: int
    kept_uniform: int

    @property
    def text(self) -> str:
        """A sentence with the counts, for the caption of a map."""
        if not self.num_tokens:
            return f"none of the {self.num_written} tokens is the model's first choice: there is nothing to count"
        tokens, be = ("token", "is") if self.num_tokens == 1 else ("tokens", "are")
        return (
            f"of the {self.num_tokens} {tokens} (of {self.num_written}) that {be} the model's first choice, "
            f"{self.kept_permuted} still {be} when cross-attention is permuted, {self.kept_uniform} when it is uniform"
        )


def counterfactual(model: Seq2Seq[Any, Any], trace: Trace, seed: int = 0) -> Counterfactual:
    """Count the surviving tokens in a trace of this model; `seed` selects the permutation."""
    first = _is_first_choice(model, trace, [])
    permuted = first & _is_first_choice(model, trace, [HeadsPermuted(where="cross", seed=seed)])
    uniform = first & _is_first_choice(model, trace, [HeadsUniform(where="cross")])
    return Counterfactual(len(trace.target), int(first.sum()), int(permuted.sum()), int(uniform.sum()))


def _is_first_choice(model: Seq2Seq[Any, Any], trace: Trace, interventions: Interventions) -> np.ndarray:
    """Return a mask of the target tokens that the model ranks first at their steps."""
    with Tap(model, edit_of(model, interventions)):
        captured = capture(model, trace.source.ids, trace.target.ids, alternatives=1)
    return np.asarray(captured.alternative_ids[:, 0] == np.array(trace.target.ids))
