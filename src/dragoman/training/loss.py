"""The loss: label-smoothed cross entropy (section 5.4 of the paper) and R-Drop, summed over tokens.

`label_smoothed` and `r_drop` take logits and are the reference implementations. `projected_label_smoothed` and
`projected_r_drop` take the hidden states before the output projection, and compute the same loss and gradients with one
array of the size of the logits instead of four. With a vocabulary of 37,000, the logits take most of the memory of a
training step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention.tap import Tap, cross_attentions
from dragoman.device import autocast, autocast_dtype, is_cpu, widest_float
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.vocab import PAD
from dragoman.training.config import GuidedAlignmentConfig, LossConfig

PAPER: Final = LossConfig()
"""The loss of the paper: label smoothing of 0.1, without R-Drop."""

RealTokens = tuple[Tensor, ...]
"""The rows and columns of the tokens of a target that are not PAD."""

ChunkLoss = Callable[[Tensor, Tensor], Tensor]
"""A function of logits and true tokens that returns the summed loss and overwrites the logits with the gradient."""

_LEAST_WEIGHT: Final = 1e-6
"""Below this attention weight the alignment loss grows no further: a mask makes weights 0."""

CHUNK = 500_000
"""The number of logits per chunk on CPUs, small enough for the CPU cache; accelerators compute all in one chunk."""

STEP = 128
"""The number of rows is padded to a multiple of STEP; `shapes.py` explains why."""


class Objective(nn.Module):
    """A model and its loss as one module, so that DDP and FSDP can average the gradients."""

    def __init__(
        self, model: Seq2Seq[Any, Any], config: LossConfig, guided: GuidedAlignmentConfig | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.guided = guided if guided and guided.weight else None

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        guide: Float[Tensor, "batch target source"] | None = None,
        real: RealTokens | None = None,
    ) -> Float[Tensor, ""]:
        """Return the loss summed over the target tokens.

        `guide` has the weights of the target tokens on the source tokens, towards which a head is trained. `real` is
        `real_tokens(target)`; if it is given, nothing waits for the device.
        """
        if guide is None or self.guided is None:
            return self._translation_loss(source, target, real)
        aligned: list[Tensor] = []
        attention = guided_attention(self.model, self.guided)
        with Tap(attention, edit=lambda seen: aligned.append(seen.weights)):
            loss = self._translation_loss(source, target, real)
        # One call of the attention, or one for each step; R-Drop's two passes are one call of twice the rows.
        weights = torch.cat(aligned, dim=-2)[:, self.guided.head]
        passes = len(weights) // len(guide)
        total = alignment_loss(weights, guide.repeat(passes, 1, 1), self.guided) / passes
        return loss + self.guided.weight * total

    def _translation_loss(self, source: Tensor, target: Tensor, real: RealTokens | None) -> Tensor:
        projection, read = self.model.projection, shifted(target)
        given = (projection.weight, target, self.config, projection.bias, real)
        if not self.config.r_drop:
            hidden = self.model.hidden(self.model.encode(source), read)
            return projected_label_smoothed(hidden, *given).total
        twice = self.model.hidden(self.model.encode(source.repeat(2, 1)), read.repeat(2, 1))
        twice = twice.view(2, *target.shape, -1)
        return projected_r_drop(twice, *given).total


def guided_attention(model: nn.Module, guided: GuidedAlignmentConfig) -> nn.Module:
    """Return the cross-attention whose head is trained towards word links."""
    names = cross_attentions(model)
    return model.get_submodule(names[guided.layer_of(len(names))])


def alignment_loss(
    weights: Float[Tensor, "batch target source"],
    guide: Float[Tensor, "batch target source"],
    guided: GuidedAlignmentConfig,
) -> Float[Tensor, ""]:
    """Return the cross entropy between the guide and the attention weights, summed over the linked target tokens.

    The weights have a row for each decoding step. Token i is written by step i and read by step i + 1.
    """
    if guided.rows == "read":
        guide, weights = guide[:, :-1], weights[:, 1:]
    return -(guide * weights.float().clamp_min(_LEAST_WEIGHT).log()).sum()


@dataclass(frozen=True)
class Loss:
    """A summed loss and the number of tokens, so that losses of different batches can be added."""

    total: Float[Tensor, ""]
    """The loss summed over tokens, in nats."""
    num_tokens: int

    @property
    def mean(self) -> Float[Tensor, ""]:
        """The mean loss per token."""
        return self.total / self.num_tokens


def label_smoothed(
    logits: Float[Tensor, "*shape vocabulary"], target: Int[Tensor, "*shape"], config: LossConfig = PAPER
) -> Loss:
    """Return the cross entropy with label smoothing, which distributes a probability of epsilon over the vocabulary.

    The paper does not specify how; `config.spread` does. `all`: epsilon / V for every token, the true token included
    (Szegedy et al., 2016, which the paper cites; torch, Hugging Face). `others`: epsilon / (V - 1) for every token
    except the true token (tensor2tensor, fairseq). PAD is ignored.
    """
    on_truth, elsewhere = smooth(config, logits.shape[-1])
    log_probabilities = logits.log_softmax(dim=-1)
    truth = log_probabilities.gather(-1, target[..., None]).squeeze(-1)
    per_token = -(on_truth - elsewhere) * truth - elsewhere * log_probabilities.sum(dim=-1)
    real = target != PAD
    return Loss(per_token[real].sum(), int(real.sum()))


def r_drop(
    first: Float[Tensor, "*shape vocabulary"],
    second: Float[Tensor, "*shape vocabulary"],
    target: Int[Tensor, "*shape"],
    config: LossConfig,
) -> Loss:
    """Return the R-Drop loss of two forward passes over a batch with different dropout (Liang et al., 2021).

    Per token, with p and q the two passes' distributions and alpha = `config.r_drop`: the mean of their label-smoothed
    cross entropies, plus alpha (KL(p || q) + KL(q || p)) / 2.
    """
    losses = [label_smoothed(logits, target, config) for logits in (first, second)]
    log_p, log_q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    # KL(p || q) + KL(q || p) in one sum
    apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)[target != PAD].sum()
    return Loss((losses[0].total + losses[1].total) / 2 + config.r_drop * apart / 2, losses[0].num_tokens)


def smooth(config: LossConfig, vocabulary: int) -> tuple[float, float]:
    """Return the label-smoothed target probabilities: of the true token, and of every other token."""
    epsilon = config.label_smoothing
    if config.spread == "all":
        return 1.0 - epsilon + epsilon / vocabulary, epsilon / vocabulary
    return 1.0 - epsilon, epsilon / (vocabulary - 1)


def real_tokens(target: Int[Tensor, "batch target"]) -> RealTokens:
    """Return the rows and columns where the target is not PAD; on an accelerator, the host waits for their number."""
    return (target != PAD).nonzero(as_tuple=True)


def projected_label_smoothed(
    hidden: Float[Tensor, "*shape d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, "*shape"],
    config: LossConfig = PAPER,
    bias: Float[Tensor, " vocabulary"] | None = None,
    real: RealTokens | None = None,
) -> Loss:
    """Return `label_smoothed` for logits = hidden . weight^T + bias, computed only for `real_tokens(target)`."""
    on_truth, elsewhere = smooth(config, weight.shape[0])
    chunk_loss = partial(cross_entropy_then_gradient, on_truth=on_truth, elsewhere=elsewhere)
    real = real_tokens(target) if real is None else real
    return Loss(apply_projected(hidden[real], weight, bias, target[real], chunk_loss), len(real[0]))


def projected_r_drop(
    hidden: Float[Tensor, "two *shape d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, "*shape"],
    config: LossConfig,
    bias: Float[Tensor, " vocabulary"] | None = None,
    real: RealTokens | None = None,
) -> Loss:
    """Return `r_drop` for logits = hidden . weight^T + bias, with the two passes stacked."""
    on_truth, elsewhere = smooth(config, weight.shape[0])
    chunk_loss = partial(r_drop_then_gradient, alpha=config.r_drop, on_truth=on_truth, elsewhere=elsewhere)
    real = real_tokens(target) if real is None else real
    first, second = hidden[0][real], hidden[1][real]
    side_by_side = torch.stack([first, second], dim=1).flatten(0, 1)  # each token's two rows together
    truth = target[real].repeat_interleave(2)
    return Loss(apply_projected(side_by_side, weight, bias, truth, chunk_loss), len(real[0]))


class ProjectedLoss(torch.autograd.Function):
    """A loss of logits = hidden . weight^T + bias that computes its gradients in the forward pass.

    `chunk_loss` returns the summed loss of a chunk of rows and overwrites the logits with their gradient. The forward
    pass then multiplies the gradient by the projection matrix, so that the logits can be freed.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, chunk_loss: ChunkLoss
    ) -> Tensor:
        compute = autocast_dtype(hidden.device) or hidden.dtype
        matrix, read = weight.to(compute), F.pad(hidden.to(compute), (0, 0, 0, -len(hidden) % STEP))
        with autocast(hidden.device, enabled=False):
            logits = read @ matrix.T
            if bias is not None:
                logits += bias.to(compute)
            # An even number: R-Drop's rows come in pairs.
            rows = 2 * max(1, CHUNK // (2 * weight.shape[0])) if is_cpu(hidden.device) else max(1, len(hidden))
            parts = zip(torch.split(logits[: len(hidden)], rows), torch.split(target, rows), strict=True)
            total = reduce(torch.add, [chunk_loss(part, truth) for part, truth in parts])
            logits[len(hidden) :] = 0.0
            by_hidden, by_weight = logits @ matrix, logits.T @ read
            by_bias = None if bias is None else logits.sum(dim=0, dtype=bias.dtype)
        ctx.gradients = [by_hidden[: len(hidden)].to(hidden.dtype), by_weight.to(weight.dtype), by_bias]
        return total.to(torch.promote_types(torch.float32, weight.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.gradients:
            raise RuntimeError(
                "the gradients of this loss are freed after the first backward pass: compute the loss again"
            )
        # Scaled where they are: a copy would be the largest array of the whole step.
        by_hidden, by_weight, by_bias = (None if part is None else part.mul_(gradient) for part in ctx.gradients)
        ctx.gradients = []
        return by_hidden, by_weight, by_bias, None, None


def apply_projected(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, chunk_loss: ChunkLoss
) -> Tensor:
    """Call `ProjectedLoss.apply` with type annotations."""
    total = ProjectedLoss.apply(hidden, weight, bias, target, chunk_loss)  # type: ignore[no-untyped-call]
    assert isinstance(total, Tensor)
    return total


def cross_entropy_then_gradient(
    logits: Float[Tensor, "rows vocabulary"], target: Int[Tensor, " rows"], on_truth: float, elsewhere: float
) -> Float[Tensor, ""]:
    """Return the summed cross entropy -sum_k q_k log p_k; overwrite the logits with the gradient p - q.

    The target probability q_k is `on_truth` for the true token and `elsewhere` for every other token.
    """
    p = logits.softmax(dim=-1, dtype=torch.promote_types(torch.float32, logits.dtype))
    wide = widest_float(logits.device)
    # log(sum(exp(logits))) without another pass of exponentials: the largest p is never too small for a logarithm.
    normaliser = logits.amax(dim=-1).to(wide) - p.amax(dim=-1).to(wide).log()
    truth = logits.gather(1, target[:, None]).squeeze(1).to(wide)
    everything = logits.sum(dim=-1, dtype=p.dtype).to(wide)
    loss = normaliser - elsewhere * everything - (on_truth - elsewhere) * truth
    p.sub_(elsewhere).scatter_add_(1, target[:, None], p.new_full((len(p), 1), elsewhere - on_truth))
    logits.copy_(p)
    return loss.sum()


def r_drop_then_gradient(
    logits: Float[Tensor, "rows vocabulary"],
    target: Int[Tensor, " rows"],
    alpha: float,
    on_truth: float,
    elsewhere: float,
) -> Float[Tensor, ""]:
    """Return the summed R-Drop loss; overwrite the logits with the gradient.

    Rows 2i and 2i + 1 are the two passes over a token. With respect to the logits of p, the gradient of KL(p || q) is
    p (log p - log q - KL(p || q)), and the gradient of KL(q || p) is p - q.
    """
    log = logits.to(torch.promote_types(torch.float32, logits.dtype)).log_softmax(dim=-1)
    truth, wide = log.gather(1, target[:, None]), widest_float(logits.device)
    entropies = -(on_truth - elsewhere) * truth.to(wide).sum() - elsewhere * log.sum(dtype=wide)
    p = log.exp()
    log, p = log.view(-1, 2, log.shape[-1]), p.view(-1, 2, log.shape[-1])
    gap = log[:, 0] - log[:, 1]
    apart = p[:, 0] - p[:, 1]
    there, back = (p[:, 0] * gap).sum(dim=-1), -(p[:, 1] * gap).sum(dim=-1)
    gradient = p.clone().view(logits.shape)
    gradient.sub_(elsewhere).scatter_add_(1, target[:, None], p.new_full((len(gradient), 1), elsewhere - on_truth))
    gradient = gradient.view_as(p)
    gradient[:, 0] += alpha * (p[:, 0] * (gap - there[:, None]) + apart)
    gradient[:, 1] += alpha * (p[:, 1] * (-gap - back[:, None]) - apart)
    logits.copy_(gradient.view(logits.shape).mul_(0.5))
    return entropies / 2 + alpha * (there.to(wide).sum() + back.to(wide).sum()) / 2
