"""The search for the head that aligns best: all of them looked at, pair by pair, by gold or by the other direction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.data.alignment import AlignmentHead, diagonal
from dragoman.data.moses import Gold
from dragoman.data.progress import Progress
from dragoman.inspection.aer import AlignmentScore
from dragoman.inspection.aer_grid import AlignmentGrid, grid
from dragoman.inspection.agreement import Agreement, agreement
from dragoman.inspection.alignment_heads import head_links
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.trace import Trace
from dragoman.inspection.words import sides_of


@dataclass(frozen=True)
class Direction:
    """A model, and the pairs as it reads and writes them."""

    inspector: Inspector
    sources: Sequence[str]
    targets: Sequence[str]

    @property
    def whole(self) -> list[int]:
        """The pairs with words on both sides: others have no links, whichever head is asked."""
        pairs = zip(self.sources, self.targets, strict=True)
        return [i for i, pair in enumerate(pairs) if all(map(str.split, pair))]

    def traces(self, progress: Progress | None, what: str) -> Iterator[Trace]:
        """Forced, one at a time."""
        for done, i in enumerate(self.whole, 1):
            source, target = sides_of(self.inspector.vocab, self.sources[i], self.targets[i])
            yield self.inspector.capture(source, target, alternatives=1)
            if progress:
                progress(what, done, len(self.whole))


@dataclass(frozen=True)
class Agreeing:
    """A head of each direction, and what they have in common."""

    forward: AlignmentHead
    backward: AlignmentHead
    share: float
    """Links that both have over links that either has."""


def by_gold(direction: Direction, gold: Sequence[Gold], progress: Progress | None = None) -> AlignmentGrid:
    """The error rate of every layer, head, row convention and measure. Gold is in the order of the direction."""
    said = [gold[i] for i in direction.whole]
    return grid(direction.traces(progress, "search by gold"), said)


def held_out(found: AlignmentGrid) -> float:
    """The error rate of heads chosen on every other pair and scored on the rest, both ways: an honest one."""
    counts = {head: score.counts for head, score in found.scores.items()}
    left = []
    for fold in (0, 1):
        best = min(counts, key=lambda head: AlignmentScore(counts[head][fold::2]).aer)
        left.append(counts[best][1 - fold :: 2])
    return AlignmentScore(np.concatenate(left)).aer


def by_agreement(forward: Direction, backward: Direction, progress: Progress | None = None) -> Agreement:
    """How far every head of one direction agrees with every head of the other."""
    there, back = (side.traces(progress, "search by agreement") for side in (forward, backward))
    return agreement(there, back)


def ranked(found: Agreement) -> list[Agreeing]:
    """All pairs of heads, those that agree most first."""
    order = np.argsort(-found.shares, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, found.shares.shape), strict=True)
    return [Agreeing(found.forward[i], found.backward[j], float(found.shares[i, j])) for i, j in places]


def diagonal_share(direction: Direction, head: AlignmentHead, progress: Progress | None = None) -> float:
    """Of a head's links, the share that words at the same relative place would have had without any model."""
    same = total = 0
    for trace in direction.traces(progress, "compare with the diagonal"):
        found = head_links(trace, head)
        same += len(found & diagonal(len(trace.source.word_spans), len(trace.target.word_spans)))
        total += len(found)
    return same / max(total, 1)
