"""Symmetrisation: combine the word alignments of both translation directions into one (Koehn, Och and Marcu, 2003).

Every result lies between the intersection (highest precision) and the union (highest recall). `grow-diag` starts with
the intersection and adds neighbouring links of the union, including diagonal neighbours, that cover a word without a
link. `grow-diag-final-and` then adds the remaining links of each direction whose two words have no link. The result
depends on the order in which links are tried: by target word and then by source word, as in Moses' symal.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final, Literal

from dragoman.alignment.links import Links, swap
from dragoman.io.progress import Progress, ignore_progress

Symmetrisation = Literal["intersection", "union", "grow-diag", "grow-diag-final-and"]

_NEIGHBOURS: Final = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise_all(
    forward: Sequence[Links], backward: Sequence[Links], method: Symmetrisation, progress: Progress = ignore_progress
) -> list[Links]:
    """Combine the word links of both directions for each sentence pair."""
    combined = []
    for done, both in enumerate(zip(forward, backward, strict=True), 1):
        combined.append(symmetrise(*both, method))
        if done % 1_000 == 0 or done == len(forward):
            progress("symmetrise", done, len(forward), "pairs")
    return combined


def symmetrise(forward: Links, backward: Links, method: Symmetrisation) -> Links:
    """Combine the word links of a forward and a backward model into one alignment.

    Both are sets of (source, target) pairs: apply `swap` to the links of a backward model. `forward` links each target
    word to source words, `backward` links each source word to target words.
    """
    if method == "intersection":
        return forward & backward
    if method == "union":
        return forward | backward
    union, points = swap(forward | backward), sorted(swap(forward & backward))  # (target, source)
    targets, sources = {target for target, _ in points}, {source for _, source in points}

    def add(point: tuple[int, int]) -> None:
        insort(points, point)
        targets.add(point[0])
        sources.add(point[1])

    before = -1
    while before < len(points):  # until a pass over all points, those added further on too, adds none
        before, index = len(points), 0
        while index < len(points):
            point = points[index]
            for down, right in _NEIGHBOURS:
                target, source = point[0] + down, point[1] + right
                if (target, source) in union and not (target in targets and source in sources):
                    add((target, source))
            index = bisect_right(points, point)
    if method == "grow-diag-final-and":
        for target, source in (*sorted(swap(forward)), *sorted(swap(backward))):
            if target not in targets and source not in sources:
                add((target, source))
    return swap(frozenset(points))
