"""Check each update before it is applied, so that a bad batch does not damage the weights."""

import math
from statistics import median

from dragoman.training.config import GuardConfig
from dragoman.training.stateful import Stateful

_WINDOW = 100
_MIN_LOSSES = 20
"""The number of losses required before a spike can be detected."""


class UpdateGuard(Stateful):
    """Rejects updates whose loss or gradient is not finite, or whose loss is a spike."""

    state_fields = ("losses", "num_rejected")

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self.losses: list[float] = []
        """The losses of the last updates that were applied."""
        self.num_rejected = 0
        """The number of updates rejected in a row."""

    def check(self, loss: float, gradient: float) -> str | None:
        """Return the reason to reject an update, or None; loss and gradient norm are those of all processes."""
        reason = self._check(loss, gradient)
        if reason is None:
            self.losses = [*self.losses, loss][-_WINDOW:]
        self.num_rejected = self.num_rejected + 1 if reason else 0
        return reason

    @property
    def is_exhausted(self) -> bool:
        """True if more updates in a row were rejected than the config allows."""
        return self.num_rejected > self.config.most

    def _check(self, loss: float, gradient: float) -> str | None:
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(gradient):
            return f"the gradient norm is {gradient}"
        if self.config.spike is None or len(self.losses) < _MIN_LOSSES:
            return None
        usual = median(self.losses)
        return f"the loss is {loss:.3g}, and the median {usual:.3g}" if loss > self.config.spike * usual else None
