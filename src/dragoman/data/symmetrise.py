"""Two alignments of the same sentence, one from each direction, made into one (Koehn, Och and Marcu, 2003).

All of it lies between the intersection, which is precise, and the union, which misses least. `grow-diag` begins with
the intersection and adds neighbours, diagonal ones too, from the union that cover a word which had no link.
`grow-diag-final-and` then adds what is left of each direction where neither word has a link. The outcome depends on the
order in which points are tried: it is that of Moses' symal, by target word and then by source word.
"""

from bisect import bisect_right, insort
from typing import Final, Literal

from dragoman.data.alignment import Links, swap

Symmetrisation = Literal["intersection", "union", "grow-diag", "grow-diag-final-and"]

_NEIGHBOURS: Final = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Links, backward: Links, method: Symmetrisation) -> Links:
    """Both are of source-target order: swap those of a model that translates back.

    `forward` gave each target word its source words, `backward` each source word its target words.
    """
    match method:
        case "intersection":
            return forward & backward
        case "union":
            return forward | backward
        case "grow-diag":
            return _Growth(forward, backward).links()
        case "grow-diag-final-and":
            growth = _Growth(forward, backward)
            growth.finish(forward)
            growth.finish(backward)
            return growth.links()


class _Growth:
    """Points (target, source), growing from the intersection."""

    def __init__(self, forward: Links, backward: Links) -> None:
        self._union = swap(forward | backward)
        self._points = sorted(swap(forward & backward))
        self._targets = {target for target, _ in self._points}
        self._sources = {source for _, source in self._points}
        while self._pass_over():
            pass

    def links(self) -> Links:
        return swap(frozenset(self._points))

    def finish(self, links: Links) -> None:
        """Adds those of which neither word has a link yet."""
        for target, source in sorted(swap(links)):
            if target not in self._targets and source not in self._sources:
                self._add((target, source))

    def _pass_over(self) -> bool:
        """One pass over the points, with those it adds further on; whether it added any."""
        before = len(self._points)
        place = 0
        while place < len(self._points):
            point = self._points[place]
            for down, right in _NEIGHBOURS:
                self._try((point[0] + down, point[1] + right))
            place = bisect_right(self._points, point)
        return len(self._points) > before

    def _try(self, point: tuple[int, int]) -> None:
        covered = point[0] in self._targets and point[1] in self._sources
        if point in self._union and not covered:
            self._add(point)

    def _add(self, point: tuple[int, int]) -> None:
        insort(self._points, point)
        self._targets.add(point[0])
        self._sources.add(point[1])
