"""Links learned from pairs alone, in both directions and symmetrised."""

import subprocess
import sys
from random import Random

import pytest

from dragoman.alignment.learned_links import learn_both_directions, learn_links
from dragoman.alignment.links import Links, swap

WORDS = {"man": "mann", **{f"noun{i}": f"wort{i}" for i in range(30)}}


@pytest.fixture(scope="module")
def pairs() -> tuple[list[str], list[str], list[Links]]:
    """Return sources, targets in another word order, and the true links."""
    draw = Random(2)
    rows = [draw.sample(list(WORDS), draw.randint(2, 4)) for _ in range(400)]
    sources = [" ".join(row) for row in rows]
    targets = [" ".join(WORDS[word] for word in (row[1], row[0], *row[2:])) for row in rows]
    links = [frozenset({(0, 1), (1, 0), *((i, i) for i in range(2, len(row)))}) for row in rows]
    return sources, targets, links


def test_clear_pairs_are_linked_truly_in_both_directions(pairs: tuple[list[str], list[str], list[Links]]) -> None:
    sources, targets, links = pairs
    assert learn_both_directions(sources, targets) == (links, links)
    assert learn_links(sources, targets) == links


def test_each_direction_links_each_word_once_at_most() -> None:
    sources, targets = ["a b", "a", "b", "c d e"], ["x x y", "x", "y", "z"]
    forward, backward = learn_both_directions(sources, targets)
    for links in forward:
        assert len({target for _, target in links}) == len(links)
    for links in backward:
        assert len({source for source, _ in links}) == len(links)
    assert learn_both_directions(targets, sources) == ([*map(swap, backward)], [*map(swap, forward)])


def test_methods_lie_between_intersection_and_union() -> None:
    sources, targets = ["a b c", "a b", "c a", ""], ["x y", "y x z", "z", "x"]
    least, grown, most = (learn_links(sources, targets, name) for name in ("intersection", "grow-diag", "union"))
    for low, middle, high in zip(least, grown, most, strict=True):
        assert low <= middle <= high
    assert sum(map(len, least)) < sum(map(len, most))


def test_every_line_keeps_its_place_and_a_blank_one_has_no_links(
    pairs: tuple[list[str], list[str], list[Links]],
) -> None:
    sources, targets, links = pairs
    found = learn_links(["", *sources, "man", ""], [" ", *targets, "", "mann"])
    assert found == [frozenset(), *links, frozenset(), frozenset()]
    assert learn_links([], []) == []


def test_torch_is_not_imported() -> None:
    code = "import sys, dragoman.alignment.learned_links, dragoman.cli.align_scores; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
