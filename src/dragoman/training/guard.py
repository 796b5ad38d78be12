"""A bad batch never touches the weights: what makes an update too strange to be made."""

import math
from collections import deque
from statistics import median

from dragoman.training.config import GuardConfig

_WINDOW = 100
_AT_LEAST = 20
"""Losses to know before one can be called unusual."""


class Guard:
    """Looks at each update before it is made."""

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self.usual: deque[float] = deque(maxlen=_WINDOW)
        self.in_a_row = 0

    def objection(self, loss: float, gradient: float) -> str | None:
        """Why this update must not be made; None if it may. Both numbers are of all processes together."""
        reason = self._strange(loss, gradient)
        if reason is None:
            self.usual.append(loss)
        self.in_a_row = self.in_a_row + 1 if reason else 0
        return reason

    @property
    def enough(self) -> bool:
        """So many updates in a row were left out that going on makes no sense."""
        return self.in_a_row > self.config.most

    def _strange(self, loss: float, gradient: float) -> str | None:
        if not math.isfinite(loss):
            return f"its loss is {loss}"
        if not math.isfinite(gradient):
            return f"its gradient is {gradient}"
        if self.config.spike is None or len(self.usual) < _AT_LEAST:
            return None
        usual = median(self.usual)
        return f"its loss is {loss:.3g}, usually {usual:.3g}" if loss > self.config.spike * usual else None
