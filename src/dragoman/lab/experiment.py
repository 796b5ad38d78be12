"""An experiment: a claim with its source, a prediction, a measurement, and the rule that turns numbers into a verdict.

The rule is a list of criteria, each a number and a bound. All numbers are measured once per seed; a criterion is met if
the whole 95 % interval over the seeds is on the predicted side of the bound.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, FiniteFloat

from dragoman.config import Config

VerdictName = Literal["holds", "fails as told", "depends", "undecided"]

T_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5 % points of Student's t for 1 to 10 degrees of freedom; beyond, the last one is taken, which is cautious."""


class Criterion(Config):
    """A bound on a number, which the claim implies."""

    number: str = Field(description="name of the number")
    side: Literal["above", "below"] = Field(description="side of the bound on which the claim expects the number")
    bound: float = Field(description="bound of the number")
    reason: str = Field(description="what the claim says about the number")

    def is_met(self, interval: "Interval") -> bool | None:
        """Return True if the whole interval is on the claimed side, False if it is on the other, otherwise None."""
        if interval.low > self.bound:
            return self.side == "above"
        if interval.high < self.bound:
            return self.side == "below"
        return None


class Interval(Config):
    """The mean of a number over the seeds, with a 95 % interval by Student's t."""

    mean: FiniteFloat = Field(description="mean over the seeds")
    low: FiniteFloat = Field(description="lower end of the 95 % interval")
    high: FiniteFloat = Field(description="upper end of the 95 % interval")

    @staticmethod
    def of(values: Sequence[float]) -> "Interval":
        """Return the interval of two or more values."""
        mean, freedom = statistics.fmean(values), len(values) - 1
        t = T_95[min(freedom, len(T_95)) - 1]
        half = t * statistics.stdev(values) / math.sqrt(len(values))
        return Interval(mean=mean, low=mean - half, high=mean + half)


class Panel(Config):
    """A panel of a picture: lines over a common x axis."""

    title: str = Field(description="title of the panel")
    x_label: str = Field(description="label of the x axis")
    y_label: str = Field(description="label of the y axis")
    x: tuple[FiniteFloat, ...] = Field(description="x values of all lines")
    lines: Mapping[str, tuple[FiniteFloat, ...]] = Field(description="y values of each line, by its name")
    log_x: bool = Field(False, description="draw the x axis logarithmically")
    log_y: bool = Field(False, description="draw the y axis logarithmically")


class Measurement(Config):
    """The results of one seed."""

    numbers: Mapping[str, FiniteFloat] = Field(description="measured numbers, by name")
    panels: tuple[Panel, ...] = Field(description="panels of the picture")


@dataclass(frozen=True)
class Experiment:
    """A claim and the means to measure it."""

    claim: str
    """The claim, as textbooks tell it."""
    source: str
    """The publication of the claim."""
    prediction: str
    """The expected result, written before the run."""
    method: str
    """The method, in a few sentences."""
    numbers: Mapping[str, str]
    """The description of each number, by name; the unit is part of it."""
    criteria: tuple[Criterion, ...]
    """The rule of the verdict; its bounds are chosen before the seeds are run."""
    lesson: str
    """The sentence that the textbook should have written; empty before the first full run."""
    measure: Callable[[int, bool], Measurement]
    """The measurement: a function of the seed, and of whether to take the smallest size."""

    def __post_init__(self) -> None:
        unknown = {criterion.number for criterion in self.criteria} - self.numbers.keys()
        assert self.criteria, "a verdict needs at least one criterion"
        assert not unknown, f"criteria without a number: {unknown}"

    def decide(self, intervals: Mapping[str, Interval]) -> VerdictName:
        """Return the verdict: `holds` if all criteria are met, `fails as told` if all are refuted, else `depends`.

        Without intervals, that is with fewer than two seeds, the verdict is `undecided`.
        """
        if not intervals:
            return "undecided"
        met = [criterion.is_met(intervals[criterion.number]) for criterion in self.criteria]
        if all(met):
            return "holds"
        return "fails as told" if all(outcome is False for outcome in met) else "depends"
