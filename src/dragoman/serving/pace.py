"""How long engines take, learned from what they took: a moment for each batch, and a little for each of its tokens."""

from typing import Final

FORGET: Final = 0.95
"""What an earlier batch counts for, against the one after it."""
GAIN: Final = 0.25
"""As long as all batches were of one size, nobody knows what more tokens would cost: this share of what the first did.
A batch of many is cheaper by far than many batches; who believed otherwise would refuse too many, and never learn."""
DOUBT: Final = 0.05
"""How much sizes must differ before that belief gives way."""


class Pace:
    """A line through the batches seen, the latest counting most."""

    def __init__(self) -> None:
        self._weight = self._tokens = self._seconds = self._squares = self._products = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """A batch of so many tokens took one engine so long."""
        sums = (self._weight, self._tokens, self._seconds, self._squares, self._products)
        new = (1.0, tokens, seconds, tokens * tokens, tokens * seconds)
        self._weight, self._tokens, self._seconds, self._squares, self._products = (
            FORGET * old + more for old, more in zip(sums, new, strict=True)
        )

    def seconds(self, tokens: int, num_engines: int, batch_tokens: int) -> float:
        """Until so many are done, by engines that share them evenly in batches as full as they may be."""
        if not self._weight or not tokens:
            return 0.0
        each = tokens / max(1, num_engines)
        start, slope = self._line()
        return max(1.0, each / batch_tokens) * start + slope * each

    def _line(self) -> tuple[float, float]:
        """Seconds for a batch, and for each token of it."""
        tokens, seconds = self._tokens / self._weight, self._seconds / self._weight
        variance = self._squares / self._weight - tokens**2
        covariance = self._products / self._weight - tokens * seconds
        doubt = DOUBT * tokens**2
        slope = (covariance + doubt * GAIN * seconds / tokens) / (variance + doubt)
        slope = min(max(slope, 0.0), seconds / tokens)
        return seconds - slope * tokens, slope
