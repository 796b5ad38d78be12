"""What a search gives back. No torch here: every engine answers in these."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One possible target."""

    tokens: tuple[int, ...]
    """Its tokens, without BOS and EOS."""
    log_probabilities: tuple[float, ...]
    """The model's log-probability of each token and, last, of the EOS: one more than `tokens`. Empty where the engine
    tells only their sum; `Engine.score` has them."""
    score: float
    """What it was ranked by: the total log-probability under the length penalty."""
    cut: bool
    """Whether it ended only because it reached the length limit, where the EOS is forced."""
    total: float | None = None
    """The sum of the log-probabilities, where they are not told one by one."""

    @property
    def log_probability(self) -> float:
        """Of the whole target, EOS included."""
        return sum(self.log_probabilities) if self.total is None else self.total


@dataclass(frozen=True)
class Candidate:
    """One extension that a step of beam search considered."""

    parent: int
    """Its place in the beam of the step before."""
    token: int
    log_probability: float
    """Of the hypothesis up to and including this token."""
    place: int | None
    """Its place in the new beam; None if it ended or was dropped."""
    ended: bool
    """Whether it became a finished hypothesis here."""


@dataclass(frozen=True)
class Result:
    """What was found for one source."""

    hypotheses: tuple[Hypothesis, ...]
    """Best first."""
    history: tuple[tuple[Candidate, ...], ...] = ()
    """The candidates of every step, best first, when the search was asked to keep them."""

    @property
    def best(self) -> Hypothesis:
        return self.hypotheses[0]
