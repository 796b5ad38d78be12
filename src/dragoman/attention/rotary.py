"""Rotary positions: queries and keys turn with their positions (RoFormer, Su et al., 2021)."""

import torch
from jaxtyping import Float
from torch import Tensor

BASE = 10_000.0
"""Pair i of d_k numbers turns by BASE^(-2i/d_k) per position: the frequencies of the paper's sinusoids."""


def rotate(x: Float[Tensor, "batch heads n d_k"], start: int = 0) -> Float[Tensor, "batch heads n d_k"]:
    """Turn the pairs of numbers (0, 1), (2, 3), ... of each vector by angles proportional to its position.

    The first vector is at the position `start`. A dot product of two turned vectors depends on the distance of their
    positions alone.
    """
    n, d_k = x.shape[-2:]
    exact = torch.promote_types(x.dtype, torch.float32)
    frequency = BASE ** -(torch.arange(0, d_k, 2, device=x.device, dtype=exact) / d_k)
    angle = torch.arange(start, start + n, device=x.device, dtype=exact)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
