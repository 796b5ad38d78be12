"""Why the scores are divided by the square root of d_k: entropy and gradients of attention as d_k grows."""

import math

import torch
from torch import Tensor

from dragoman.attention.attend import masked_softmax
from dragoman.attention.score import Dot, ScaledDot, Score
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel

NUM_QUERIES, NUM_KEYS = 256, 32


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Score random queries against random keys, and compare the softmax with and without the division."""
    generator = torch.Generator().manual_seed(seed)
    widths = (4, 64) if is_smallest else (4, 16, 64, 128, 256, 512, 1024)
    rows: dict[str, list[tuple[float, float, float, float]]] = {"q . k": [], "q . k / sqrt(d_k)": []}
    for width in widths:
        query = torch.randn(NUM_QUERIES, width, generator=generator)
        key = torch.randn(NUM_KEYS, width, generator=generator)
        upstream = torch.randn(NUM_QUERIES, NUM_KEYS, generator=generator)
        for row, score in zip(rows.values(), (Dot(), ScaledDot()), strict=True):
            row.append(observe(score, query, key, upstream))
    plain, divided = rows.values()
    panels = [
        Panel(
            title=title, x_label="d_k", y_label=label, x=widths, log_x=True, log_y=is_log,
            lines={name: tuple(values[column] for values in row) for name, row in rows.items()},
        )
        for column, title, label, is_log in (
            (1, "Entropy of the weights", "entropy / log n", False),
            (2, "Gradient at the scores", "median norm", True),
            (3, "Gradient at the queries", "median norm", True),
        )
    ]  # fmt: skip
    return Measurement(
        numbers={
            "spread": plain[-1][0] / math.sqrt(widths[-1]),
            "entropy_plain": plain[-1][1],
            "entropy_divided": divided[-1][1],
            "score_gradient": plain[-1][2] / divided[-1][2],
            "query_gradient": plain[-1][3] / divided[-1][3],
        },
        panels=tuple(panels),
    )


def observe(score: Score, query: Tensor, key: Tensor, upstream: Tensor) -> tuple[float, float, float, float]:
    """Return the deviation of the scores, the entropy as a share of log n, and the gradients at scores and queries."""
    query = query.clone().requires_grad_()
    scores = score(query, key)
    scores.retain_grad()
    weights = masked_softmax(scores, None)
    torch.autograd.backward((weights * upstream).sum())
    assert scores.grad is not None
    assert query.grad is not None
    entropy = torch.special.entr(weights.detach()).sum(-1).mean().item() / math.log(len(key))
    return (
        scores.std().item(), entropy, scores.grad.norm(dim=-1).median().item(), query.grad.norm(dim=-1).median().item()
    )  # fmt: skip


EXPERIMENT = Experiment(
    claim="For large d_k the dot products grow large and push the softmax into regions with extremely small gradients; "
    "dividing by the square root of d_k counteracts this.",
    source="Vaswani et al. 2017, section 3.2.1 and footnote 4",
    prediction="The scores spread like the root of d_k, the undivided softmax is nearly one-hot at d_k = 1024, and the "
    "gradient that reaches the scores is much smaller. The gradient at the queries is multiplied by the keys, whose "
    "norm grows with the root of d_k as well, so it shrinks less.",
    method=f"{NUM_QUERIES} queries and {NUM_KEYS} keys with independent standard normal components, as in the paper's "
    "footnote; the scores are those of attention/score.py, the softmax that of attention/attend.py. A random gradient "
    "is sent back through the softmax.",
    numbers={
        "spread": "standard deviation of q . k over the root of d_k, at the largest d_k",
        "entropy_plain": "entropy of the undivided weights, as a share of the uniform's, at the largest d_k",
        "entropy_divided": "entropy of the divided weights, as a share of the uniform's, at the largest d_k",
        "score_gradient": "median gradient at the scores, undivided over divided, at the largest d_k",
        "query_gradient": "median gradient at the queries, undivided over divided, at the largest d_k",
    },
    criteria=(
        Criterion(number="spread", side="above", bound=0.9, reason="dot products grow like the root of d_k"),
        Criterion(number="entropy_plain", side="below", bound=0.25, reason="undivided, the softmax saturates"),
        Criterion(number="entropy_divided", side="above", bound=0.75, reason="divided, it does not"),
        Criterion(number="score_gradient", side="below", bound=0.1, reason="undivided, the softmax passes on little"),
        Criterion(number="query_gradient", side="below", bound=0.5, reason="and so the queries learn little"),
    ),
    lesson="The reason holds for wide keys: at d_k = 1024 the undivided softmax is nearly one-hot and passes on next "
    "to nothing. But the picture has a second half: at the paper's own d_k = 64 the undivided scores send the "
    "queries more than twice the gradient of the divided ones, because the division itself makes that gradient "
    "smaller. At that width the division keeps the weights soft; it does not rescue the gradient.",
    measure=measure,
)
