"""The learning rate as a product of named factors of the update's number (section 5.3). No torch here."""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from dragoman.training.config import Factor, ScheduleConfig


class Place(NamedTuple):
    """Where a run is."""

    update: int
    """From 1."""
    last: int
    """The run's last update."""
    d_model: int


def rate(config: ScheduleConfig, place: Place) -> float:
    """The learning rate of an update."""
    return config.rate * math.prod(_FACTORS[factor](config, place) for factor in config.factors)


def _paper(config: ScheduleConfig, place: Place) -> float:
    return float(place.d_model**-0.5 * min(place.update**-0.5, place.update * config.warmup**-1.5))


def _warmup(config: ScheduleConfig, place: Place) -> float:
    return min(1.0, place.update / max(1, config.warmup))


def _inverse_sqrt(config: ScheduleConfig, place: Place) -> float:
    return math.sqrt(config.warmup / max(place.update, config.warmup))


def _cosine(config: ScheduleConfig, place: Place) -> float:
    return _down(config, 0.5 * (1.0 + math.cos(math.pi * _done(config, place))))


def _linear(config: ScheduleConfig, place: Place) -> float:
    return _down(config, 1.0 - _done(config, place))


def _done(config: ScheduleConfig, place: Place) -> float:
    """The share of the way from the end of warm-up to just after the last update, so that the last one still learns."""
    way = place.last + 1 - config.warmup
    return min(1.0, max(0.0, (place.update - config.warmup) / way)) if way > 0 else 0.0


def _down(config: ScheduleConfig, height: float) -> float:
    return config.floor + (1.0 - config.floor) * height


_FACTORS: Final[Mapping[Factor, Callable[[ScheduleConfig, Place], float]]] = {
    "paper": _paper,
    "warmup": _warmup,
    "inverse_sqrt": _inverse_sqrt,
    "cosine": _cosine,
    "linear": _linear,
}
