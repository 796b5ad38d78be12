"""Which positions may be seen: True = visible (sections 3.1, 3.2.3 and 4 of the paper).

Every mask broadcasts to [batch, heads, queries, keys], and what several masks allow together is their `meeting`.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(tokens: Int[Tensor, "batch keys"], pad: int) -> Bool[Tensor, "batch 1 1 keys"]:
    """Real tokens are visible, padding is not."""
    return (tokens != pad)[:, None, None, :]


def causal(length: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """A position sees itself and what came before it, so that predictions depend only on known outputs."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def restricted(length: int, neighbours: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """A position sees those at most `neighbours` away on either side: restricted self-attention of section 4.

    Table 1's r, the size of the neighbourhood, is 2 * neighbours + 1.
    """
    if neighbours < 0:
        raise ValueError(f"neighbours must be 0 or more, not {neighbours}")
    return window(torch.arange(length, device=device), length, neighbours)


def window(centre: Int[Tensor, "*shape"], keys: int, neighbours: int) -> Bool[Tensor, "*shape keys"]:
    """Visible: the keys at most `neighbours` away from each centre (Luong's local attention moves the centre)."""
    position = torch.arange(keys, device=centre.device)
    return (position - centre[..., None]).abs() <= neighbours


def meeting(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """What all the masks allow; None, which hides nothing, drops out."""
    met: Tensor | None = None
    for mask in masks:
        if mask is not None:
            met = mask if met is None else met & mask
    return met
