"""Length penalties, named by their formula: what a hypothesis's log-probability is divided by.

The same alpha means different things under different formulas (0.6 under `gnmt` is not 0.6 under `length`), so a
penalty is never a bare number. A length counts the EOS. No torch here: every engine ranks with this file.
"""

from typing import Literal

from pydantic import Field

from dragoman.config import Config


class Penalty(Config):
    """score = log-probability / divisor(length)."""

    formula: Literal["gnmt", "length", "none"] = Field(
        "gnmt",
        description="gnmt: ((5 + n) / 6)^alpha, as the paper (Wu et al., 2016); length: n^alpha, as fairseq, Marian "
        "and CTranslate2; none: 1",
    )
    alpha: float = Field(0.6, description="strength: 0 is no penalty; the larger, the longer the outputs")

    def divisor(self, length: int) -> float:
        """What the log-probability of a hypothesis of `length` tokens is divided by."""
        match self.formula:
            case "gnmt":
                return float(((5 + length) / 6) ** self.alpha)
            case "length":
                return float(length**self.alpha)
            case "none":
                return 1.0

    def score(self, log_probability: float, length: int) -> float:
        """How hypotheses of different lengths are compared."""
        return log_probability / self.divisor(length)

    def best_future_score(self, log_probability: float, shortest: int, longest: int) -> float:
        """The best score a hypothesis can end with, if it ends with `shortest` to `longest` tokens.

        More tokens only lower its log-probability, and divisors are monotone in the length, so the bound is reached at
        one of the two ends.
        """
        return max(self.score(log_probability, shortest), self.score(log_probability, longest))
