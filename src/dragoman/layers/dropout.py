"""Dropout that does not cost a fifth of a small model's training step on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 2**16
"""A CPU mask draws 16 bits a number, so the rate is rounded to a multiple of 1/65536."""


class Dropout(nn.Module):
    """Zeroes numbers with probability `rate` and scales the rest up to keep the expectation.

    torch draws one number of its serial generator for each element. Here four elements share one 64-bit draw, which is
    several times cheaper; on other devices torch's own kernel is used.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.rate == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return x * keep_mask(x, self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def keep_mask(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """0 with probability `rate`, otherwise 1 / (1 - rate): drawn from torch's default generator."""
    dropped = round(rate * LEVELS)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    lots = draws.view(torch.int16)[: x.numel()].view(x.shape)
    kept = lots >= dropped - LEVELS // 2
    return kept.to(x.dtype).mul_(LEVELS / (LEVELS - dropped)) if dropped < LEVELS else torch.zeros_like(x)
