"""The worked example "Hi , how are you ?": a table of raw scores, divided and put through the softmax, to the end."""

import math

import torch
from torch import Tensor

from dragoman.attention.attend import masked_softmax
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel

TOKENS = ("Hi", ",", "how", "are", "you", "?")
SCORES = (
    (89, 12, 32, 45, 73, 34),
    (20, 11, 15, 21, 29, 24),
    (33, 25, 91, 36, 55, 45),
    (52, 68, 12, 13, 40, 27),
    (28, 27, 54, 41, 92, 12),
    (39, 30, 73, 64, 12, 74),
)
DIVISORS = (1.0, math.sqrt(6), 4.0, 8.0, 16.0, 32.0, 64.0)


def measure(seed: int, is_smallest: bool) -> Measurement:  # noqa: ARG001 - nothing is random, and nothing is large
    """Compute the weights of the table under several divisors."""
    largest = {divisor: weights(divisor).amax(dim=-1) for divisor in DIVISORS}
    divided = weights(DIVISORS[1])
    return Measurement(
        numbers={
            "entropy_plain": entropy(weights(1.0)),
            "entropy_divided": entropy(divided),
            "one_hot_rows": float((divided.amax(dim=-1) > 0.9).sum()),
            "divisor_needed": needed_divisor(0.5),
        },
        panels=(
            Panel(
                title="Largest weight of each token's row", x_label="divisor of the scores", y_label="weight",
                x=DIVISORS, log_x=True,
                lines={
                    token: tuple(float(largest[divisor][row]) for divisor in DIVISORS)
                    for row, token in enumerate(TOKENS)
                },
            ),
        ),
    )  # fmt: skip


def weights(divisor: float) -> Tensor:
    """Return the attention weights of the table, its scores divided by `divisor`."""
    return masked_softmax(torch.tensor(SCORES, dtype=torch.float64) / divisor, None)


def entropy(table: Tensor) -> float:
    """Return the mean entropy of the rows, as a share of the uniform's."""
    return float(torch.special.entr(table).sum(-1).mean()) / math.log(len(TOKENS))


def needed_divisor(share: float) -> float:
    """Return the divisor under which the mean entropy is this share of the uniform's, by bisection."""
    low, high = 1.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(weights(middle)) < share else (low, middle)
    return high


EXPERIMENT = Experiment(
    claim='Dividing the scores by the square root of the dimension keeps the softmax soft: in the example "Hi , how '
    'are you ?" the raw scores from 11 to 92 are divided by the root of 6.',
    source="a worked example of teaching texts on Vaswani et al. 2017",
    prediction="Neighbouring scores still differ by 5 and more after the division, so most rows stay nearly one-hot.",
    method="The 6 x 6 table of the example, divided by the root of 6, through the softmax of attention/attend.py; then "
    "the divisor that would give half of the uniform's entropy. Nothing is random: all seeds are equal.",
    numbers={
        "entropy_plain": "mean entropy of the rows without division, as a share of the uniform's",
        "entropy_divided": "mean entropy of the rows after division by the root of 6, as a share of the uniform's",
        "one_hot_rows": "rows of 6 with a weight above 0.9 after the division",
        "divisor_needed": "divisor that would give half of the uniform's entropy",
    },
    criteria=(
        Criterion(number="entropy_divided", side="above", bound=0.5, reason="after the division the weights are soft"),
        Criterion(number="one_hot_rows", side="below", bound=1, reason="and no row is nearly one-hot"),
        Criterion(number="divisor_needed", side="below", bound=3, reason="the root of 6 is about what is needed"),
    ),
    lesson="The division makes vectors of different dimension comparable; it cannot soften scores that are large for "
    "another reason. Scores from 11 to 92 do not come from vectors of dimension 6 with unit variance, whose dot "
    "products have a standard deviation of 2.4: here four rows of six stay nearly one-hot, and a divisor of 12.6 "
    "would be needed for half of the uniform's entropy.",
    measure=measure,
)
