"""Which heads align, without gold: those of the two directions that agree with each other (Chen et al., 2020, 3.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead, LinkRule
from dragoman.inspection.aer import paired
from dragoman.inspection.alignment_heads import ARGMAX, all_links, same_heads
from dragoman.inspection.trace import Trace


@dataclass(frozen=True, eq=False)
class Agreement:
    """Links that both directions have over links that either has, for every head of one with every one of the other."""

    forward: tuple[AlignmentHead, ...]
    backward: tuple[AlignmentHead, ...]
    shares: Float[ndarray, "forward backward"]

    def best(self, single: bool = False) -> tuple[AlignmentHead, AlignmentHead]:
        """The pair that agrees most, a head for each direction; `single` leaves the means of heads out."""
        first, second = (
            np.array([head.head is not None or not single for head in heads]) for heads in (self.forward, self.backward)
        )
        at = int(np.where(first[:, None] & second, self.shares, -1.0).argmax())
        return self.forward[at // len(self.backward)], self.backward[at % len(self.backward)]


def agreement(forward: Iterable[Trace], backward: Iterable[Trace], rule: LinkRule = ARGMAX) -> Agreement:
    """Compares traces from source to target with those of the model for the other direction, over the same pairs.

    Heads that always point at one place disagree, for each direction has its own. Heads that follow the diagonal agree
    and align nothing: see that the winner is not just near `diagonal`.
    """
    there_heads: list[AlignmentHead] = []
    back_heads: list[AlignmentHead] = []
    both = together = np.zeros((1, 1))
    for number, there, back in paired(forward, backward, ("forward traces", "backward traces")):
        _check(number, there, back)
        one, other = all_links(there, rule), all_links(back, rule)
        there_heads = same_heads(number, there_heads, one.heads)
        back_heads = same_heads(number, back_heads, other.heads)
        both = both + _flat(one.links) @ _flat(other.links.swapaxes(1, 2)).T
        together = together + one.links.sum((1, 2))[:, None] + other.links.sum((1, 2))
    if not there_heads:
        raise ValueError("there are no traces to compare: trace some pairs in both directions")
    return Agreement(tuple(there_heads), tuple(back_heads), both / np.maximum(together - both, 1.0))


def _flat(links: Bool[ndarray, "heads target_words source_words"]) -> Float[ndarray, "heads cells"]:
    return links.reshape(len(links), -1).astype(np.float64)


def _check(number: int, there: Trace, back: Trace) -> None:
    for one, other in ((there.source, back.target), (there.target, back.source)):
        if one.text.split() != other.text.split():
            raise ValueError(f"pair {number} is not the same both ways: {one.text!r} and {other.text!r}")
