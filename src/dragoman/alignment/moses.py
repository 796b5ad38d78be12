"""Word links as text: the Moses format `0-0 1-2`, and gold alignments with sure and possible links."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dragoman.alignment.links import Links, swap

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


class Gold(NamedTuple):
    """The manually annotated word links of one sentence pair (Och and Ney, 2003)."""

    sure: Links
    possible: Links
    """All acceptable links, including the sure links."""

    def swapped(self) -> "Gold":
        """Return the gold links with source and target swapped."""
        return Gold(swap(self.sure), swap(self.possible))


def to_moses(pairs: Links) -> str:
    """Return the links as one line of `source-target` pairs, counted from 0 and sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def read_gold(lines: Iterable[str], name: str = "gold") -> Iterator[Gold]:
    """Yield the gold links of each line, such as `1-1 2p3`: `-` is sure, `p` is possible, words count from 1."""
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for link in line.split():
            parts = _LINK.fullmatch(link)
            if parts is None or int(parts[1]) == 0 or int(parts[3]) == 0:
                raise ValueError(f"{name}, line {number}: {link!r} is not a link: write 1-1 if sure, 2p3 if possible")
            pair = (int(parts[1]) - 1, int(parts[3]) - 1)
            possible.add(pair)
            if parts[2] == "-":
                sure.add(pair)
        yield Gold(frozenset(sure), frozenset(possible))


def read_gold_of(
    lines: Iterable[str], sources: Sequence[str], targets: Sequence[str], name: str = "gold", *, swap: bool = False
) -> list[Gold]:
    """Return the gold links of sentence pairs; with `swap`, the target word stands first in each link.

    Raise ValueError if there is no sure link, or if a link has a word that its sentence does not have.
    """
    gold = [links.swapped() if swap else links for links in read_gold(lines, name)]
    if not any(links.sure for links in gold):
        raise ValueError(f"{name}: AER is undefined without sure links: write sure links as 1-1")
    for number, (links, *pair) in enumerate(zip(gold, sources, targets, strict=True), 1):
        for side, line, words in zip(("source", "target"), pair, zip(*links.possible, strict=True), strict=False):
            size = len(line.split())
            if max(words) >= size:
                raise ValueError(
                    f"{name}, line {number:,}: a link has {side} word {max(words) + 1}, but there are {size} words: "
                    "give the gold links of these sentences, or add --swap-gold if the target word comes first"
                )
    return gold
