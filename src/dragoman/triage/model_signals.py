"""A model's signals about a translation: six numbers, larger where a bad translation is likelier.

This module does not import torch: CTranslate2 gives log-probabilities, hypotheses and the attention that aligns.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.alignment.links import steps
from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import Rows

Weights = Float[ndarray, "target source"]
"""The attention weights of each target token on each source token, both with EOS last."""

_SLACK: Final = 10
"""Characters added to both lengths before they are compared, because short sentences vary more."""
_LONGEST_NGRAM: Final = 6
_RECALL_WEIGHT: Final = 4.0
"""Recall counts beta^2 times as much as precision; beta is 2."""


class Signals(NamedTuple):
    """The signals of one translation."""

    nll: float
    """The mean negative log-probability of a token, EOS included."""
    worst_nll: float
    """The negative log-probability of the least probable token."""
    disagreement: float
    """1 minus the mean chrF between the translation and the model's other hypotheses."""
    attention_entropy: float
    """The mean entropy of the attention that aligns, in nats per target token."""
    uncovered: float
    """The share of the source that receives no attention: 1 minus the mean over tokens, each of at most 1."""
    shortness: float
    """The logarithm of the expected length divided by the length; 0 for a translation that is long enough."""


class ModelReadings(NamedTuple):
    """What a model says about one translation; the attention is NaN or None if the model has no cross-attention."""

    source: Tokens
    log_probabilities: Float[ndarray, " target"]
    others: tuple[str, ...]
    """The model's other hypotheses or, for a given target, all of them."""
    attention_entropy: float = math.nan
    uncovered: float = math.nan
    coverage: Float[ndarray, " source_words"] | None = None
    """The attention that the tokens of each source word received on average."""

    def signals(self, source: str, target: str, expected_ratio: float | None) -> Signals:
        """Return the signals of the translation, with the expected number of target characters per source character."""
        return Signals(
            nll=float(-self.log_probabilities.mean()),
            worst_nll=float(-self.log_probabilities.min()),
            disagreement=measure_disagreement(target, self.others),
            attention_entropy=self.attention_entropy,
            uncovered=self.uncovered,
            shortness=measure_shortness(source, target, expected_ratio),
        )


LABELS: Final[dict[str, str]] = {
    "nll": "-log p per token",
    "worst_nll": "-log p of the worst token",
    "disagreement": "disagreement of hypotheses",
    "attention_entropy": "entropy of attention",
    "uncovered": "source without attention",
    "shortness": "shortness",
}
"""The names of the signals for people."""


def measure_shortness(source: str, target: str, expected_ratio: float | None) -> float:
    """Return how far a target falls short of its expected length, as a logarithm; 0 if nothing is expected."""
    if expected_ratio is None:
        return 0.0
    return max(0.0, float(np.log((expected_ratio * len(source) + _SLACK) / (len(target) + _SLACK))))


def measure_entropy(weights: Weights) -> float:
    """Return the mean entropy of the rows, in nats."""
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(1).mean())


def measure_uncovered(weights: Weights, rows: Rows) -> float:
    """Return the share of the source tokens that no target token attends to; EOS is left out on both sides."""
    total = weights[steps(rows, len(weights)), :-1].sum(0)
    return float(1 - np.minimum(total, 1.0).mean()) if len(total) else 0.0


def measure_disagreement(target: str, others: Sequence[str]) -> float:
    """Return 1 minus the mean chrF between a translation and others; 0 if there are none."""
    return 1 - sum(chrf(target, other) for other in others) / len(others) if others else 0.0


def chrf(hypothesis: str, reference: str) -> float:
    """Return sacreBLEU's chrF of a sentence, from 0 to 1.

    Own code, as a bare install has no sacreBLEU; a test compares both.
    """
    texts = ["".join(text.split()) for text in (hypothesis, reference)]
    precisions, recalls = [], []
    for size in range(1, _LONGEST_NGRAM + 1):
        written, wanted = (Counter(text[i : i + size] for i in range(len(text) - size + 1)) for text in texts)
        if written and wanted:
            same = (written & wanted).total()
            precisions.append(same / written.total())
            recalls.append(same / wanted.total())
    precision, recall = (sum(values) / max(len(values), 1) for values in (precisions, recalls))
    if not precision + recall:
        return 0.0
    return (1 + _RECALL_WEIGHT) * precision * recall / (_RECALL_WEIGHT * precision + recall)
