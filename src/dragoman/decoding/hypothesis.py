"""The results of a search, the same for every engine. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Tokens = Sequence[int]
"""Token ids of one sequence."""

NOT_NUMBERS: Final = "the model's scores are NaN (damaged weights or diverged training): use another model"


@dataclass(frozen=True)
class Hypothesis:
    """One possible target sequence with its score."""

    tokens: tuple[int, ...]
    """The tokens of the target, without BOS and EOS."""
    log_probabilities: tuple[float, ...]
    """The log-probability of each token, followed by that of EOS. Empty if the engine gives only the sum: then call
    `Engine.score`."""
    score: float
    """The total log-probability divided by the length penalty, used for ranking."""
    cut: bool
    """True if EOS was forced at the length limit."""
    total: float | None = None
    """The sum of the log-probabilities, if the engine does not give one per token."""

    @property
    def log_probability(self) -> float:
        """The log-probability of the whole target, including EOS."""
        return sum(self.log_probabilities) if self.total is None else self.total


@dataclass(frozen=True)
class Candidate:
    """An extension of a hypothesis by one token, considered in a step of beam search."""

    parent: int
    """The index of the extended hypothesis in the previous beam."""
    token: int
    log_probability: float
    """Log-probability of the hypothesis up to and including this token."""
    place: int | None
    """The index in the new beam; None if the candidate ended or was dropped."""
    ended: bool
    """True if the candidate became a finished hypothesis in this step."""


@dataclass(frozen=True)
class Result:
    """The search result for one source: its hypotheses, best first."""

    hypotheses: tuple[Hypothesis, ...]
    """The hypotheses, best first."""
    history: tuple[tuple[Candidate, ...], ...] = ()
    """The candidates of every step, best first, if the search kept them."""

    @property
    def best(self) -> Hypothesis:
        return self.hypotheses[0]
