"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and of how much if that is known."""
