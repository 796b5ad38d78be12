"""Validation of user input: choices, integers and strings."""

from collections.abc import Sequence
from numbers import Integral


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the value is None or one of the allowed strings."""
    if value is not None and value not in allowed:
        raise ValueError(f"unknown {name} {value}: give {', '.join(allowed[:-1])} or {allowed[-1]}")


def check_int(name: str, value: object, most: int | None = None) -> None:
    """Raise ValueError unless the value is None or an integer from 1 to `most`."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(f"{name} {value!r} is not a positive integer: give 1 or more")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} {value:,} is too large: give {most:,} or less")


def check_text(name: str, value: object) -> None:
    """Raise ValueError unless the value is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, not {type(value).__name__}")
