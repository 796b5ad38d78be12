"""What `dragoman translate` writes for one text: its translation, the next best ones, their scores and links."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

BAR: Final = " ||| "
"""Between the columns, as in Moses."""

DIGITS: Final = 4
"""Of a score: what comes after depends on the engine's order of summation."""

Value = str | dict[str, str | float] | list[dict[str, str | float]]
"""What goes into a field: a text; with more beside it, an object; of several, a list of objects, best first."""


class Found(NamedTuple):
    """One translation of a text."""

    text: str
    score: float
    """The sum of its sentences' scores, each a log-probability under the length penalty; of nothing, 0."""
    links: str | None = None
    """Which words belong together, as Moses writes it, if that was asked for."""


Answer = tuple[Found, ...]
"""The translations of a text, best first: at least one."""

Answers = Callable[[Iterable[str]], Iterator[Answer]]
"""One answer for each text, in their order, however many there are."""


class Shape(NamedTuple):
    """What of an answer is to be seen."""

    several: bool
    """Whether there may be more than the best one; then all have their scores."""
    scores: bool
    alignment: bool

    def line(self, number: int, answer: Answer, end: str = "\n") -> str:
        """For a file of text, ending as the text's own line does. Lines are counted from 0, as in Moses, where a text
        has several.
        """
        if not self.several:
            return BAR.join(self._columns(answer[0])) + end
        return (end or "\n").join(BAR.join([str(number), *self._columns(found)]) for found in answer) + end

    def value(self, answer: Answer) -> Value:
        """For a field of JSON or Parquet."""
        if self.several:
            return [self._object(found) for found in answer]
        return self._object(answer[0]) if self.scores or self.alignment else answer[0].text

    def _columns(self, found: Found) -> list[str]:
        scores = [f"{found.score:.{DIGITS}f}"] if self.scores or self.several else []
        return [found.text, *scores, *([found.links or ""] if self.alignment else [])]

    def _object(self, found: Found) -> dict[str, str | float]:
        score = {"score": round(found.score, DIGITS)} if self.scores or self.several else {}
        links = {"alignment": found.links or ""} if self.alignment else {}
        return {"text": found.text, **score, **links}
