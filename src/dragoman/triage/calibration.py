"""The weights of signals: a logistic regression that gives the chance of a bad translation.

A translation is bad if its chrF is below `bad_below`. The weights in calibration.json were fitted on dev sets with the
built-in model; the file names the command. `dragoman triage --dev` fits weights for another model.
"""

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.triage.model_signals import Signals

BAD_BELOW: Final = 0.4
"""A translation with a lower chrF, from 0 to 1, is bad."""
FEWEST: Final = 10
"""The fewest good and the fewest bad translations that weights are fitted on."""

_PENALTY: Final = 0.01
"""The penalty on squared weights, for standardised signals and the mean loss of a line."""
_STEPS: Final = 50


class SignalWeight(Config):
    """The weight of one signal, which is standardised first."""

    mean: float = Field(description="usual value of the signal")
    scale: float = Field(gt=0.0, description="standard deviation of the signal")
    weight: float = Field(description="change of the log-odds per standard deviation")


class Calibration(Config):
    """The weights of all signals, and what they were fitted on."""

    model: str = Field(description="SHA-256 of the bundle")
    fitted_on: str = Field(description="command or files that the weights come from")
    num_lines: int = Field(ge=1, description="number of lines that the weights were fitted on")
    bad_below: float = Field(BAD_BELOW, description="chrF from 0 to 1 below which a translation is bad")
    bias: float = Field(description="log-odds of a translation whose signals are all usual")
    signals: dict[str, SignalWeight] = Field(description="weight of each signal, by name")

    def recentre(self, signals: Sequence[Signals]) -> "Calibration":
        """Return the same weights with the mean and the scale of these signals as usual."""
        usual = dict(self.signals)
        for (name, old), column in zip(self.signals.items(), np.array(signals, np.float64).T, strict=True):
            if not np.isnan(column).any():
                scale = max(float(column.std()), 0.1 * old.scale)
                usual[name] = SignalWeight(mean=float(column.mean()), scale=scale, weight=old.weight)
        return self.model_copy(update={"signals": usual})

    def effects(self, signals: Signals) -> dict[str, float]:
        """Return what each signal adds to the log-odds of a bad translation; a signal that is NaN is left out."""
        known = {name: value for name, value in signals._asdict().items() if not math.isnan(value)}
        weights = self.signals
        return {
            name: weights[name].weight * (value - weights[name].mean) / weights[name].scale
            for name, value in known.items()
        }

    def chance(self, signals: Signals) -> float:
        """Return the chance that a translation with these signals is bad."""
        return float(_logistic(np.array(self.bias + sum(self.effects(signals).values()))))


@cache
def load_calibration() -> Calibration:
    """Return the calibration of the built-in model."""
    return Calibration.model_validate_json((files("dragoman.triage") / "calibration.json").read_bytes())


def fit_calibration(
    signals: Sequence[Signals],
    scores: Sequence[float],
    *,
    model: str,
    fitted_on: str,
    importance: Sequence[float] | None = None,
) -> Calibration:
    """Fit weights on translations whose chrF is known.

    `importance` weighs the lines, so that a large dev set does not outweigh a small one.
    """
    bad = np.array(scores, np.float64) < BAD_BELOW
    if min(bad.sum(), (~bad).sum()) < FEWEST:
        counts = f"{bad.sum():,} of {len(bad):,} translations have a chrF below {100 * BAD_BELOW:.0f}"
        raise ValueError(f"{fitted_on}: {counts}: give dev pairs with at least {FEWEST} such and {FEWEST} other lines")
    table = np.nan_to_num(np.array(signals, np.float64))
    means, scales = table.mean(0), np.maximum(table.std(0), 1e-6)
    shares = np.ones(len(bad)) if importance is None else np.array(importance, np.float64)
    bias, *weights = fit_logistic((table - means) / scales, bad, shares / shares.sum()).tolist()
    columns = zip(Signals._fields, means.tolist(), scales.tolist(), weights, strict=True)
    found = {name: SignalWeight(mean=mean, scale=scale, weight=weight) for name, mean, scale, weight in columns}
    return Calibration(model=model, fitted_on=fitted_on, num_lines=len(bad), bias=bias, signals=found)


def fit_logistic(
    inputs: Float[ndarray, "lines signals"], is_bad: ndarray, shares: Float[ndarray, " lines"]
) -> Float[ndarray, " weights"]:
    """Return the bias and the weights of a logistic regression, by Newton's method."""
    columns = np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
    penalty = _PENALTY * np.diag([0.0] + [1.0] * inputs.shape[1])
    weights = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        chances = _logistic(columns @ weights)
        gradient = columns.T @ (shares * (chances - is_bad)) + penalty @ weights
        curvature = (columns * (shares * chances * (1 - chances))[:, None]).T @ columns + penalty
        weights = weights - np.linalg.solve(curvature, gradient)
    return np.asarray(weights)


def _logistic(log_odds: ndarray) -> ndarray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)))
