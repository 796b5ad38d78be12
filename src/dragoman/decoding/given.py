"""What may be given from outside: a word of a few, a whole number, a text; anything else is refused. No torch here."""

from collections.abc import Sequence
from numbers import Integral
from typing import Final, Literal

EngineName = Literal["auto", "ctranslate2", "torch"]

Compute = Literal["float32", "int16", "int8"]
"""What CTranslate2 multiplies. float32 gives what training gave, in whatever batch; the others are faster, and what
they give may depend on the batch."""

MOST_HYPOTHESES: Final = 1_000
"""A search takes as many times as long, and after the first few finds nothing better."""
MOST_ALTERNATIVES: Final = 100
"""Each is a search of its own: 100 take the demo 19 seconds on one core."""


def a_word(name: str, given: object, allowed: Sequence[str]) -> None:
    """Refuses what is none of these; None is nothing given."""
    if given is not None and given not in allowed:
        raise ValueError(f"{name} {given}: give {', '.join(allowed[:-1])} or {allowed[-1]}")


def a_number(name: str, given: object, most: int | None = None) -> None:
    """Refuses what is no whole number from 1 on; None is nothing given."""
    if given is None:
        return
    whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not whole or given < 1:  # type: ignore[operator]
        raise ValueError(f"{name} {given!r}: give a whole number, 1 or more")
    if most is not None and given > most:  # type: ignore[operator]
        raise ValueError(f"{name} {given:,}: give {most:,} at most; more takes long and helps nobody")


def a_text(name: str, given: object) -> None:
    """Refuses what is no string."""
    if not isinstance(given, str):
        raise ValueError(f"{name} must be a string, not {type(given).__name__}")
