"""Attention: a softmax over the scores of visible keys, then the weighted sum of the values.

The `explicit` path computes the weights, so that a tap can read or replace them. Fused kernels compute the same sum
faster without storing the weights. `Attend` takes the fastest path that is allowed.
"""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.attention.score import Score
from dragoman.attention.tap import AttentionVectors, Seam
from dragoman.device import is_cpu

Path = Literal["explicit", "fused"]

FUSED_BF16_BACKWARD_FROM = 256
"""The number of keys from which the fused kernel's bfloat16 backward pass on CPUs is as fast as the explicit path; on
short sequences it is several times slower (docs/results.md)."""


def fastest_path(device: torch.device, dtype: torch.dtype, num_keys: int, with_gradient: bool) -> Path:
    """Return the attention path that was faster in benchmarks on this device and data type."""
    if is_cpu(device) and dtype == torch.bfloat16 and with_gradient and num_keys < FUSED_BF16_BACKWARD_FROM:
        return "explicit"
    return "fused"


class Attend(Seam):
    """Compute the sum of the values, weighted by the softmax of the scores.

    `path` is for tests and benchmarks; by default each call takes the fastest path. A query without visible keys gets
    zero weights and a zero output, never NaN.
    """

    def __init__(self, score: Score, dropout: float = 0.0, path: Path | None = None) -> None:
        super().__init__()
        self.score = score
        self.dropout = dropout
        self.path = path

    def forward(
        self,
        query: Float[Tensor, "batch heads queries d_query"],
        key: Float[Tensor, "batch heads keys d_key"],
        value: Float[Tensor, "batch heads keys d_v"],
        visible: Bool[Tensor, "#batch #heads #queries #keys"] | None = None,
        *,
        causal: bool = False,
        reweight: Float[Tensor, "#batch #heads queries keys"] | None = None,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Return the weighted sum of the values for each query. `key` must be an output of `score.prepare`.

        `causal` hides the positions after a query: the same as combining `visible` with `mask.causal`, but a fused
        kernel needs no mask tensor. `reweight` multiplies the weights after the softmax, without normalising again
        (Luong's local attention).
        """
        if causal and query.shape[-2] != key.shape[-2]:
            raise ValueError(
                f"causal needs as many keys as queries, not {key.shape[-2]} and {query.shape[-2]}: pass visible instead"
            )
        tap = self.tap()
        power = self.score.power
        if tap is None and reweight is None and power is not None and self._path(query, key, value) == "fused":
            dropout = self.dropout if self.training else 0.0
            return _fused(query, key, value, visible, causal, query.shape[-1] ** power, dropout)
        if causal:
            visible = mask.meeting(visible, mask.causal(query.shape[-2], query.device))
        weights = masked_softmax(self.score(query, key), visible)
        if reweight is not None:
            weights = weights * reweight
        if tap is not None:
            weights = tap.see(self, weights, visible, AttentionVectors(query, key, value))
        return torch.matmul(F.dropout(weights, self.dropout, self.training), value)

    def _path(self, query: Tensor, key: Tensor, value: Tensor) -> Path:
        with_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
        return self.path or fastest_path(query.device, query.dtype, key.shape[-2], with_gradient)


def masked_softmax(
    scores: Float[Tensor, "*shape queries keys"], visible: Bool[Tensor, "..."] | None
) -> Float[Tensor, "*shape queries keys"]:
    """Return the softmax over visible keys; hidden keys get weight 0, even if a query has no visible key."""
    hidden = None if visible is None else ~visible
    if not torch.is_grad_enabled():
        return _softmax(scores, hidden)
    weights = _MaskedSoftmax.apply(scores, hidden)  # type: ignore[no-untyped-call]
    assert isinstance(weights, Tensor)
    return weights


def _softmax(scores: Tensor, hidden: Tensor | None) -> Tensor:
    # The lowest number and not -inf: a row with nothing visible would be NaN on its way to zero.
    seen = scores if hidden is None else scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights: Tensor = torch._softmax(seen, -1, False)
    return weights if hidden is None else weights.masked_fill_(hidden, 0.0)


class _MaskedSoftmax(torch.autograd.Function):
    """Softmax in the precision of the scores, also under autocast.

    Sums are float32 inside the kernel, and the result would be rounded for the next product anyway. A hidden key weighs
    zero, so its gradient is zero without a mask.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, hidden: Tensor | None) -> Tensor:
        weights = _softmax(scores, hidden)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype), None


def _fused(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool, scale: float, dropout: float
) -> Tensor:
    if causal and visible is not None:
        visible = mask.meeting(visible, mask.causal(query.shape[-2], query.device))
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, dropout_p=dropout, is_causal=causal and visible is None, scale=scale
    )
