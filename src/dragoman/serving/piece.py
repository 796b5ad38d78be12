"""A sentence on its way through the service, and what is wished of it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Wish(NamedTuple):
    """How a sentence is to be translated. Sentences with the same wish can share a batch."""

    model: str
    generation: str
    """The hash of the bundle: a request whose model is replaced meanwhile is answered by the old one, all of it."""
    beam_size: int | None = None
    num_best: int = 1
    formula: str | None = None
    alpha: float | None = None
    """The length penalty; None leaves the model's own."""
    protect: bool = False
    tokens: bool = False
    """Whether the log-probability of each token is wanted."""
    alignment: bool = False
    prefix: str = ""


@dataclass(eq=False, slots=True)
class Piece:
    """One sentence that waits for its translation."""

    text: str
    wish: Wish
    cost: int
    asked: float
    """When, by the loop's clock."""
    answer: "asyncio.Future[dict[str, Any]]"
    waiting: bool = field(default=False, init=False)
    """Whether it is in the queue."""
    lost: int = field(default=0, init=False)
    """How many engines have died with it. Whoever may be the cause is tried again, but without company."""


def cost_of(text: str) -> int:
    """How many tokens it is, about: only a vocabulary knows."""
    return 2 + len(text.encode()) // 4
