"""Plan the last update of a run from the limits on updates and time. Does not import torch."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from dragoman.training.config import Every, StopConfig
from dragoman.training.stateful import Stateful

_RESERVE = 0.03
"""The smallest fraction of the time that is reserved for the last validation and the bundle."""

_BETWEEN_PLANS = 0.02
"""The fraction of the time after which the plan is revised again."""

_FIRST_PLANS = (10, 20, 50)
"""The updates after which the first plans are made."""

_CHANGE = 0.01
"""Relative change below which the plan stays the same."""


class TimeBudget(Stateful):
    """Plans the number of a run's last update.

    With a time limit, the plan follows the measured speed: a run on a slow machine makes fewer updates, and the
    learning rate schedule still reaches its end.
    """

    state_fields = ("updates", "time", "last", "measurements")

    def __init__(self, config: StopConfig) -> None:
        self.config = config
        self.updates = self.last = config.updates
        self.time = config.time
        self.measurements: list[Sequence[float]] = [(0, 0.0)]
        self.validation_seconds = 0.0
        """The duration of the last validation; another one follows the last update."""

    def plan(self, update: int, elapsed: float) -> bool:
        """Revise the plan after an update; return True if the number of the last update has changed."""
        if self.time is None or elapsed <= 0.0:
            return False
        if update not in _FIRST_PLANS and elapsed - self.measurements[-1][1] < _BETWEEN_PLANS * self.time:
            return False
        self.measurements.append((update, elapsed))
        last = self._last_possible(self.time)
        is_close = abs(last - self.last) <= _CHANGE * self.last and last > update
        if last == self.last or is_close:
            return False
        self.last = last
        return True

    def _last_possible(self, limit: float) -> int:
        """Return the last update within the limit, at the speed of the last third of the time.

        The whole time would give another speed, as the machine's load may change.
        """
        update, elapsed = self.measurements[-1]
        then = max((mark for mark in self.measurements if mark[1] <= elapsed * 2 / 3), key=itemgetter(1))
        left = limit - max(_RESERVE * limit, self.validation_seconds) - elapsed
        possible = int(update) + max(0, round(left * (update - then[0]) / (elapsed - then[1])))
        return min(self.updates, possible)

    def expected_seconds(self, update: int, elapsed: float) -> float:
        """Return the expected duration of the run: at the speed so far, but at most the time limit."""
        expected = self.last * elapsed / max(1, update)
        return expected if self.time is None else min(expected, self.time)

    def is_over(self, update: int, elapsed: float) -> bool:
        """Return True if the last update is done or the time is up."""
        return update >= self.last or (self.time is not None and elapsed >= self.time)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state; plan again if the config has another number of updates or another time."""
        limits = {"updates": self.updates, "time": self.time}
        before = {name: state.get(name, limit) for name, limit in limits.items()}
        super().load_state_dict({**state, **limits})
        if before != limits:
            is_measured = self.measurements[-1][1] > 0.0
            self.last = self.updates if self.time is None or not is_measured else self._last_possible(self.time)


def checkpoint_interval(expected_seconds: float) -> float:
    """Return the seconds between checkpoints with `every: auto`: a tenth of the run, between 10 s and 10 minutes."""
    return max(10.0, min(600.0, expected_seconds / 10))


def is_due(every: Every | None, update: int, elapsed: float, before: float) -> bool:
    """Return True if an interval of `every` ends with this update; `before` is `elapsed` at the previous update."""
    if every is None:
        return False
    if isinstance(every, int):
        return update % every == 0
    return elapsed // every > before // every
