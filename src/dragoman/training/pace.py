"""How far a run goes: what the clock leaves of the updates that were asked for. No torch here."""

from dragoman.training.config import Every, StopConfig

_RESERVE = 0.03
"""Of the time, for the last validations and the bundle."""

_CHANGE = 0.01
"""A plan that is off by less is left alone."""


class Pace:
    """The number of the last update. With a time limit it follows the measured speed: a run on a slow machine makes
    fewer updates, and its schedule ends with them, instead of being cut off half-way down.
    """

    def __init__(self, config: StopConfig) -> None:
        self.config = config
        self.last = config.updates
        self.marks = [(0, 0.0)]

    def plan(self, update: int, elapsed: float) -> bool:
        """Look at the clock after an update; True if the last update is now another one."""
        if self.config.time is None or not _looks(update) or elapsed <= 0.0:
            return False
        left = (1.0 - _RESERVE) * self.config.time - elapsed
        possible = update + max(0, round(left * self._speed(update, elapsed)))
        last = min(self.config.updates, possible)
        is_close = abs(last - self.last) <= _CHANGE * self.last and last > update
        if last == self.last or is_close:
            return False
        self.last = last
        return True

    def _speed(self, update: int, elapsed: float) -> float:
        """Updates a second in the last third of the time so far: a machine that was busy at first may be free now."""
        then = max(mark for mark in self.marks if mark[1] <= elapsed * 2 / 3)
        self.marks.append((update, elapsed))
        return (update - then[0]) / (elapsed - then[1])

    def is_over(self, update: int, elapsed: float) -> bool:
        """The last update was made, or the time is up."""
        return update >= self.last or (self.config.time is not None and elapsed >= self.config.time)


def _looks(update: int) -> bool:
    """Soon at first, when little is known, and then from time to time."""
    return update in (10, 20, 50) or update % 100 == 0


def is_due(every: Every | None, update: int, elapsed: float, before: float) -> bool:
    """Something that comes every so often comes after this update; `before` was the time after the last one."""
    if every is None:
        return False
    if isinstance(every, int):
        return update % every == 0
    return elapsed // every > before // every
