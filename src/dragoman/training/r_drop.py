"""R-Drop: two passes over one batch, with other dropout, should agree (Liang et al., 2021, "R-Drop: Regularized Dropout
for Neural Networks").

Per token, with p and q the two passes' distributions: the mean of their label-smoothed cross entropies, plus
alpha (KL(p || q) + KL(q || p)) / 2. `r_drop` says it; `projected_r_drop` gives the same number and gradients with one
array of the size of the logits, as `projected_label_smoothed` does.
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.data.vocab import PAD
from dragoman.training.loss import Loss, Spread, label_smoothed, projected, smooth


def r_drop(
    first: Float[Tensor, "*shape vocabulary"],
    second: Float[Tensor, "*shape vocabulary"],
    target: Int[Tensor, "*shape"],
    alpha: float,
    epsilon: float = 0.1,
    spread: Spread = "all",
) -> Loss:
    """The loss of the logits of two passes."""
    losses = [label_smoothed(logits, target, epsilon, spread) for logits in (first, second)]
    log_p, log_q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    # KL(p || q) + KL(q || p) in one sum
    apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)[target != PAD].sum()
    return Loss((losses[0].total + losses[1].total) / 2 + alpha * apart / 2, losses[0].num_tokens)


def projected_r_drop(
    hidden: Float[Tensor, "two *shape d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, "*shape"],
    alpha: float,
    epsilon: float = 0.1,
    spread: Spread = "all",
) -> Loss:
    """The same for logits = hidden . weight^T, with the two passes stacked."""
    on_truth, elsewhere = smooth(epsilon, weight.shape[0], spread)
    chunk_loss = partial(_then_gradient, alpha=alpha, on_truth=on_truth, elsewhere=elsewhere)
    real = target != PAD
    first, second = hidden[0][real], hidden[1][real]
    side_by_side = torch.stack([first, second], dim=1).flatten(0, 1)  # each token's two rows together
    truth = target[real].repeat_interleave(2)
    return Loss(projected(side_by_side, weight, truth, chunk_loss), int(real.sum()))


def _then_gradient(
    logits: Float[Tensor, "rows vocabulary"],
    target: Int[Tensor, " rows"],
    alpha: float,
    on_truth: float,
    elsewhere: float,
) -> float:
    """The summed loss; afterwards, its gradient stands where the logits stood.

    By the logits of p, the gradient of KL(p || q) is p (log p - log q - KL(p || q)), that of KL(q || p) is p - q.
    """
    log = logits.to(torch.promote_types(torch.float32, logits.dtype)).log_softmax(dim=-1)
    truth = log.gather(1, target[:, None])
    entropies = -(on_truth - elsewhere) * truth.double().sum() - elsewhere * log.sum(dtype=torch.float64)
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
    return float(entropies / 2 + alpha * (there.double().sum() + back.double().sum()) / 2)
