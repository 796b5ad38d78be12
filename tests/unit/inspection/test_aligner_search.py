"""The search for a head: over the pairs that have words, ranked, with an honest figure beside the best one."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.alignment import AlignmentHead, diagonal
from dragoman.data.moses import read_gold
from dragoman.inspection.aer import AlignmentScore, alignment_score
from dragoman.inspection.aer_grid import AlignmentGrid
from dragoman.inspection.agreement import Agreement
from dragoman.inspection.aligner import Aligner
from dragoman.inspection.aligner_search import (
    Direction,
    by_agreement,
    by_gold,
    diagonal_share,
    held_out,
    ranked,
)
from dragoman.inspection.inspector import Inspector

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCES = ["two red dogs.", "", "ten \u2060 old houses.", "four"]
TARGETS = ["zwei rote Hunde.", "nichts", "zehn alte Häuser.", "vier grüne"]
GOLD = list(read_gold(["1-1 2-2 3-3", "", "1-1 3-2 4-3", "1-1 1p2"]))
WHOLE = [0, 2, 3]


@cache
def inspector(name: str) -> Inspector:
    return Inspector.load(GOLDEN / name)


def forward(name: str = "v1") -> Direction:
    return Direction(inspector(name), SOURCES, TARGETS)


def backward() -> Direction:
    return Direction(inspector("v1-recurrent"), TARGETS, SOURCES)


@pytest.mark.parametrize("name", ["v1", "v1-recurrent"])
def test_every_head_is_scored_as_it_aligns(name: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    found = by_gold(forward(name), GOLD, lambda *said: told.append(said))
    for head, score in found.scores.items():
        links = Aligner(inspector(name).model, inspector(name).vocab, (head,)).links(SOURCES, TARGETS)
        assert score.aer == alignment_score(links, GOLD).aer, head
    assert [done for _, done, _ in told] == [1, 2, 3]


def test_heads_agree_as_their_links_do() -> None:
    found = ranked(by_agreement(forward(), backward()))
    assert [pair.share for pair in found] == sorted((pair.share for pair in found), reverse=True)
    best = found[0]
    there = Aligner(inspector("v1").model, inspector("v1").vocab, (best.forward,)).links(SOURCES, TARGETS)
    recurrent = inspector("v1-recurrent")
    back = Aligner(recurrent.model, recurrent.vocab, (best.backward,)).links(TARGETS, SOURCES)
    back = [frozenset((source, target) for target, source in links) for links in back]
    both = sum(len(one & other) for one, other in zip(there, back, strict=True))
    either = sum(len(one | other) for one, other in zip(there, back, strict=True))
    assert best.share == pytest.approx(both / either)


def test_pairs_of_heads_that_agree_alike_keep_their_order() -> None:
    one, other, third = (AlignmentHead(layer="decoder.attention", head=head) for head in range(3))
    shares = np.array([[0.25, 0.75, 0.5], [0.75, 0.0, 1.0]])
    found = ranked(Agreement((one, other), (one, other, third), shares))
    assert [pair.share for pair in found] == [1.0, 0.75, 0.75, 0.5, 0.25, 0.0]
    assert (found[0].forward, found[0].backward) == (other, third)
    assert (found[1].forward, found[2].forward) == (one, other)


def test_a_head_chosen_on_one_half_is_scored_on_the_other() -> None:
    """Found, sure, found and sure, found and possible; a head for even sentences, one for odd, and one in between."""
    right, wrong, half = [2, 2, 2, 2], [2, 2, 0, 0], [2, 2, 1, 1]
    heads = [AlignmentHead(layer="decoder.attention", head=head) for head in range(3)]
    counts = [[right, wrong, right, wrong], [wrong, right, wrong, right], [half, half, half, half]]
    scores = {head: AlignmentScore(np.array(own)) for head, own in zip(heads, counts, strict=True)}
    assert AlignmentGrid(scores).scores[AlignmentGrid(scores).best()].aer == 0.5
    assert held_out(AlignmentGrid(scores)) == 1.0
    assert held_out(AlignmentGrid({heads[2]: scores[heads[2]]})) == 0.5


def test_the_share_on_the_diagonal_is_counted_over_links() -> None:
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=0)
    links = Aligner(inspector("v1").model, inspector("v1").vocab, (head,)).links(SOURCES, TARGETS)
    sizes = [(3, 3), (0, 1), (4, 3), (1, 2)]
    same = sum(len(found & diagonal(*size)) for found, size in zip(links, sizes, strict=True))
    assert diagonal_share(forward(), head) == same / sum(map(len, links))
    assert diagonal_share(Direction(inspector("v1"), [""], ["a"]), head) == 0.0
