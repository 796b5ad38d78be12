"""Length penalties: the score of a hypothesis is its log-probability divided by a function of its length.

The same alpha means different things under different formulas (0.6 under `gnmt` is not 0.6 under `length`), so a
penalty is never a bare number. Lengths include EOS. Every engine ranks by these scores. Does not import torch.
"""

from typing import Final, Literal

from pydantic import Field

from dragoman.config import Config

_USUAL_LENGTH: Final = 20
"""The length at which n^exponent, used in place of `gnmt`, has the same slope."""


class Penalty(Config):
    """A length penalty: score = log-probability / divisor(length)."""

    formula: Literal["gnmt", "length", "none"] = Field(
        "gnmt",
        description="gnmt: ((5 + n) / 6)^alpha, as in Wu et al. (2016); length: n^alpha, as in fairseq, Marian "
        "and CTranslate2; none: 1",
    )
    alpha: float = Field(0.6, description="strength: 0 is no penalty; larger values favour longer outputs")

    def divisor(self, length: int) -> float:
        """Return the number by which the log-probability of a hypothesis with `length` tokens is divided."""
        match self.formula:
            case "gnmt":
                return float(((5 + length) / 6) ** self.alpha)
            case "length":
                return float(length**self.alpha)
            case "none":
                return 1.0

    @property
    def exponent(self) -> float:
        """The exponent of n^exponent, the only formula of other programs, that ranks alike or nearly so."""
        match self.formula:
            case "gnmt":
                return self.alpha * _USUAL_LENGTH / (5 + _USUAL_LENGTH)
            case "length":
                return self.alpha
            case "none":
                return 0.0

    def score(self, log_probability: float, length: int) -> float:
        """Return the score of a hypothesis: its log-probability divided by the length penalty."""
        return log_probability / self.divisor(length)

    def best_future_score(self, log_probability: float, shortest: int, longest: int) -> float:
        """Return the best possible score of a hypothesis that will end with `shortest` to `longest` tokens.

        More tokens only lower the log-probability, and divisors are monotone in the length, so the bound is reached at
        `shortest` or `longest`.
        """
        return max(self.score(log_probability, shortest), self.score(log_probability, longest))
