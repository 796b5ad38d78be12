"""Links as text: the Moses format `0-0 1-2`, and gold alignments with sure and possible links."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dragoman.data.alignment import Links, swap

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True)
class Gold:
    """What people said of one sentence pair (Och and Ney, 2003)."""

    sure: Links
    possible: Links
    """Those that may be there or not; the sure ones are among them."""

    def swapped(self) -> "Gold":
        """Seen from the other side."""
        return Gold(swap(self.sure), swap(self.possible))


def to_moses(pairs: Links) -> str:
    """One line: source-target, from 0, in the order of the source."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def read_moses(lines: Iterable[str], name: str = "alignment") -> Iterator[Links]:
    """The links of each line; an empty one has none. The name is for the message when a line cannot be read."""
    for number, line in enumerate(lines, 1):
        found = [(link, _LINK.fullmatch(link)) for link in line.split()]
        for link, parts in found:
            if parts is None or parts[2] != "-":
                raise ValueError(f"{name}, line {number}: {link!r} is no link: write 0-0 1-2, source-target, from 0")
        yield frozenset((int(parts[1]), int(parts[3])) for _, parts in found if parts)


def read_gold(lines: Iterable[str], name: str = "gold") -> Iterator[Gold]:
    """The links of each line, written `1-1 2p3`: `-` is sure, `p` possible, and words are counted from 1."""
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for link in line.split():
            parts = _LINK.fullmatch(link)
            if parts is None or int(parts[1]) == 0 or int(parts[3]) == 0:
                raise ValueError(f"{name}, line {number}: {link!r} is no link: write 1-1 for sure, 2p3 for possible")
            pair = (int(parts[1]) - 1, int(parts[3]) - 1)
            possible.add(pair)
            if parts[2] == "-":
                sure.add(pair)
        yield Gold(frozenset(sure), frozenset(possible))
