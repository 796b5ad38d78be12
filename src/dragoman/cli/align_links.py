"""The work of `dragoman align` once all is read: links from each direction, joined, and how good they are."""

import sys
from functools import cached_property
from typing import cast

from dragoman.bundle import Bundle
from dragoman.cli.align_head import HeadOptions, tell_of_guess
from dragoman.cli.progress import shown
from dragoman.data.alignment import AlignmentHead, Links, diagonal, swap
from dragoman.data.moses import Gold
from dragoman.data.symmetrise import Symmetrisation, symmetrise
from dragoman.inspection.aer import AlignmentScore, alignment_score
from dragoman.inspection.aligner import Aligner, require_short_lines
from dragoman.inspection.aligner_search import Direction
from dragoman.inspection.inspector import Inspector

Heads = list[tuple[AlignmentHead, ...]]
"""Of each direction; none stands for those the model knows, or a guess."""


class Work:
    """One model or two, and the pairs."""

    def __init__(
        self, bundles: list[Bundle], sources: list[str], targets: list[str], gold: list[Gold] | None, method: str
    ) -> None:
        self.bundles = bundles
        self.sources, self.targets = sources, targets
        self.gold = gold
        self.method = cast("Symmetrisation", method)

    @cached_property
    def directions(self) -> list[Direction]:
        """Forward, and backward if there are two models, each with the pairs as it reads them."""
        sides = [(self.sources, self.targets), (self.targets, self.sources)]
        return [Direction(Inspector.of(bundle), *pair) for bundle, pair in zip(self.bundles, sides, strict=False)]

    def require_short(self) -> None:
        """Whether every line fits every model."""
        for of_one in self.directions:
            require_short_lines(of_one.inspector.model, of_one.inspector.vocab, of_one.sources, of_one.targets)

    def named(self, options: HeadOptions) -> Heads:
        """The head that was named for the model; the other direction goes by its own."""
        return [options.heads(self.directions[0].inspector.model), ()][: len(self.bundles)]

    def links(self, heads: Heads) -> dict[str, list[Links]]:
        """By the way they were found, in source-target order; the last is the result."""
        aligners = [self._aligner(i, own) for i, own in enumerate(heads)]
        with shown() as progress:
            found = [
                aligner.links(direction.sources, direction.targets, progress)
                for aligner, direction in zip(aligners, self.directions, strict=True)
            ]
        if len(found) == 1:
            return {"model": found[0]}
        back = [swap(of_pair) for of_pair in found[1]]
        joined = [symmetrise(there, other, self.method) for there, other in zip(found[0], back, strict=True)]
        return {"forward": found[0], "backward": back, self.method: joined}

    def show_scores(self, found: dict[str, list[Links]]) -> None:
        """On standard error, if there is gold."""
        if self.gold is None:
            return
        pairs = zip(self.sources, self.targets, strict=True)
        guess = [diagonal(len(source.split()), len(target.split())) for source, target in pairs]
        for name, links in {"diagonal": guess, **found}.items():
            print(f"{name:20}{line(alignment_score(links, self.gold))}", file=sys.stderr)
        print(f"in percent, 95 % intervals, {len(self.gold):,} pairs; diagonal knows no words", file=sys.stderr)

    def _aligner(self, i: int, heads: tuple[AlignmentHead, ...]) -> Aligner:
        bundle, inspector = self.bundles[i], self.directions[i].inspector
        aligner = Aligner(inspector.model, inspector.vocab, heads or bundle.info.alignment_heads)
        tell_of_guess(aligner, str(bundle.folder))
        return aligner


def line(score: AlignmentScore) -> str:
    """A score in one line."""
    low, high = score.interval()
    return (
        f"AER {100 * score.aer:5.1f} [{100 * low:.1f}, {100 * high:.1f}]  "
        f"precision {100 * score.precision:5.1f}  recall {100 * score.recall:5.1f}"
    )
