"""The learning rate: a product of named functions of the update number. Does not import torch."""

import math
from typing import NamedTuple

from dragoman.training.config import Factor, ScheduleConfig


class SchedulePoint(NamedTuple):
    """The inputs of the learning rate: the update number, the last update number and the model dimension."""

    update: int
    """The number of the update, counted from 1."""
    last: int
    """The number of the run's last update."""
    d_model: int


def learning_rate(config: ScheduleConfig, point: SchedulePoint) -> float:
    """Return the learning rate of an update."""
    return config.rate * math.prod(_factor(name, config, point) for name in config.factors)


def _factor(name: Factor, config: ScheduleConfig, point: SchedulePoint) -> float:
    update, warmup = point.update, config.warmup
    match name:
        case "paper":
            return float(point.d_model**-0.5 * min(update**-0.5, update * warmup**-1.5))
        case "warmup":
            return min(1.0, update / max(1, warmup))
        case "inverse_sqrt":
            return math.sqrt(warmup / max(update, warmup))
    # The way down, from the end of warm-up to just after the last update, so that the last one still learns.
    way = point.last + 1 - warmup
    progress = min(1.0, max(0.0, (update - warmup) / way)) if way > 0 else 0.0
    height = 0.5 * (1.0 + math.cos(math.pi * progress)) if name == "cosine" else 1.0 - progress
    return config.floor + (1.0 - config.floor) * height
