"""Attention masks: True = visible (sections 3.1, 3.2.3 and 4 of the paper).

Every mask broadcasts to [batch, heads, queries, keys]; `meeting` combines masks.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(tokens: Int[Tensor, "batch keys"], pad: int) -> Bool[Tensor, "batch 1 1 keys"]:
    """Return a mask that hides padding tokens."""
    return (tokens != pad)[:, None, None, :]


def causal(length: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """Return a mask that hides later positions, so that a prediction depends only on earlier outputs."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def restricted(length: int, neighbours: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """Return a mask for restricted self-attention: keys at most `neighbours` positions away are visible.

    The size of the neighbourhood, r in the paper's Table 1, is 2 * neighbours + 1.
    """
    if neighbours < 0:
        raise ValueError(f"neighbours {neighbours} is negative: give 0 or more")
    return window(torch.arange(length, device=device), length, neighbours)


def window(centre: Int[Tensor, "*shape"], keys: int, neighbours: int) -> Bool[Tensor, "*shape keys"]:
    """Return a mask of the keys at most `neighbours` positions from each centre, for Luong's local attention."""
    position = torch.arange(keys, device=centre.device)
    return (position - centre[..., None]).abs() <= neighbours


def meeting(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Return the logical AND of the masks; a mask that is None hides nothing."""
    met: Tensor | None = None
    for mask in masks:
        if mask is not None:
            met = mask if met is None else met & mask
    return met
