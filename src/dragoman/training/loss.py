"""Label-smoothed cross entropy, summed, with the number of tokens it was summed over (section 5.4).

`label_smoothed` takes logits and says what is meant. `projected_label_smoothed` takes what comes before the last
projection and gives the same number and gradients with one array of the size of the logits instead of four: with a
vocabulary of 37,000 they are most of the memory of a training step, and a good part of its time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.data.vocab import PAD

Spread = Literal["all", "others"]

ChunkLoss = Callable[[Tensor, Tensor], float]
"""From some rows of logits and their true tokens to their summed loss; its gradient replaces the logits."""

CHUNK = 500_000
"""Logits turned into gradients at a time: few enough to stay in the processor's cache."""

STEP = 128
"""Rows are filled up to a multiple of it, for the reason that `shapes.py` gives."""


@dataclass(frozen=True)
class Loss:
    """A sum and its count: batches of different sizes can be added before anything is divided."""

    total: Float[Tensor, ""]
    """Summed over the tokens, in nats."""
    num_tokens: int

    @property
    def mean(self) -> Float[Tensor, ""]:
        """Per token."""
        return self.total / self.num_tokens


def label_smoothed(
    logits: Float[Tensor, "*shape vocabulary"],
    target: Int[Tensor, "*shape"],
    epsilon: float = 0.1,
    spread: Spread = "all",
) -> Loss:
    """Cross entropy with a target distribution that keeps 1 - epsilon for the true token and spreads epsilon.

    Over which tokens, the paper does not say. `all`: epsilon / V on each, the true one included (Szegedy et al., 2016,
    which the paper cites; torch, Hugging Face). `others`: epsilon / (V - 1) on all but the true one (tensor2tensor,
    fairseq). PAD counts for nothing.
    """
    on_truth, elsewhere = smooth(epsilon, logits.shape[-1], spread)
    log_probabilities = logits.log_softmax(dim=-1)
    truth = log_probabilities.gather(-1, target[..., None]).squeeze(-1)
    per_token = -(on_truth - elsewhere) * truth - elsewhere * log_probabilities.sum(dim=-1)
    real = target != PAD
    return Loss(per_token[real].sum(), int(real.sum()))


def projected_label_smoothed(
    hidden: Float[Tensor, "*shape d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, "*shape"],
    epsilon: float = 0.1,
    spread: Spread = "all",
) -> Loss:
    """The same for logits = hidden . weight^T; none are made for PAD."""
    on_truth, elsewhere = smooth(epsilon, weight.shape[0], spread)
    chunk_loss = partial(cross_entropy_then_gradient, on_truth=on_truth, elsewhere=elsewhere)
    real = target != PAD
    return Loss(projected(hidden[real], weight, target[real], chunk_loss), int(real.sum()))


def smooth(epsilon: float, vocabulary: int, spread: Spread) -> tuple[float, float]:
    """The target probability of the true token and of every other one."""
    if spread == "all":
        return 1.0 - epsilon + epsilon / vocabulary, epsilon / vocabulary
    return 1.0 - epsilon, epsilon / (vocabulary - 1)


class Projected(torch.autograd.Function):
    """A loss of logits = hidden . weight^T whose gradient by the logits is known as soon as they are.

    So it goes through the projection at once. `chunk_loss` gives the loss of some rows, summed, and leaves its gradient
    where their logits stood.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, chunk_loss: ChunkLoss) -> Tensor:
        compute = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype
        matrix, read = weight.to(compute), F.pad(hidden.to(compute), (0, 0, 0, -len(hidden) % STEP))
        with torch.autocast("cpu", enabled=False):
            logits = read @ matrix.T
            rows = 2 * max(1, CHUNK // (2 * weight.shape[0]))  # even: R-Drop's rows come in pairs
            parts = zip(torch.split(logits[: len(hidden)], rows), torch.split(target, rows), strict=True)
            total = sum(chunk_loss(part, truth) for part, truth in parts)
            logits[len(hidden) :] = 0.0
            by_hidden, by_weight = logits @ matrix, logits.T @ read
        ctx.gradients = [by_hidden[: len(hidden)].to(hidden.dtype), by_weight.to(weight.dtype)]
        return hidden.new_tensor(total, dtype=torch.promote_types(torch.float32, weight.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.gradients:
            raise RuntimeError("the gradients of this loss were taken already, and are gone: compute it again")
        # Scaled where they are: a copy would be the largest array of the whole step.
        by_hidden, by_weight = (part.mul_(gradient) for part in ctx.gradients)
        ctx.gradients = []
        return by_hidden, by_weight, None, None


def projected(hidden: Tensor, weight: Tensor, target: Tensor, chunk_loss: ChunkLoss) -> Tensor:
    """A typed door to `Projected`."""
    total = Projected.apply(hidden, weight, target, chunk_loss)  # type: ignore[no-untyped-call]
    assert isinstance(total, Tensor)
    return total


def cross_entropy_then_gradient(
    logits: Float[Tensor, "rows vocabulary"], target: Int[Tensor, " rows"], on_truth: float, elsewhere: float
) -> float:
    """-sum_k q_k log p_k, where q is `on_truth` at the true token and `elsewhere` at every other.

    Its gradient is p - q.
    """
    p = logits.softmax(dim=-1, dtype=torch.promote_types(torch.float32, logits.dtype))
    # log(sum(exp(logits))) without another pass of exponentials: the largest p is never too small for a logarithm.
    normaliser = logits.amax(dim=-1).double() - p.amax(dim=-1).double().log()
    truth = logits.gather(1, target[:, None]).squeeze(1).double()
    everything = logits.sum(dim=-1, dtype=p.dtype).double()
    loss = normaliser - elsewhere * everything - (on_truth - elsewhere) * truth
    p.sub_(elsewhere).scatter_add_(1, target[:, None], p.new_full((len(p), 1), elsewhere - on_truth))
    logits.copy_(p)
    return float(loss.sum())
