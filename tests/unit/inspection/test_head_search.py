"""The search for a head: over the pairs that have words, ranked, with an honest figure beside the best one."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.alignment.aligner import Aligner
from dragoman.alignment.error_rate import AlignmentScore, alignment_score
from dragoman.alignment.links import diagonal
from dragoman.alignment.moses import read_gold
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.head_search import AlignmentGrid, diagonal_share, rank_agreement, score_heads
from dragoman.inspection.inspector import Inspector

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCES = ["two red dogs.", "", "ten \u2060 old houses.", "four"]
TARGETS = ["zwei rote Hunde.", "nichts", "zehn alte Häuser.", "vier grüne"]
GOLD = list(read_gold(["1-1 2-2 3-3", "", "1-1 3-2 4-3", "1-1 1p2"]))
WHOLE = [0, 2, 3]


@cache
def inspector(name: str) -> Inspector:
    return Inspector.load(GOLDEN / name)


@pytest.mark.parametrize("name", ["v1", "v1-recurrent", "v1-convolutional"])
def test_every_head_is_scored_as_it_aligns(name: str) -> None:
    reports: list[tuple[object, ...]] = []
    traces = inspector(name).trace_pairs(SOURCES, TARGETS, lambda *report: reports.append(report), "search")
    found = score_heads(traces, [GOLD[i] for i in WHOLE])
    for head, score in found.scores.items():
        links = Aligner(inspector(name).model, inspector(name).vocab, (head,)).links(SOURCES, TARGETS)
        assert score.aer == alignment_score(links, GOLD).aer, head
    assert [report[:3] for report in reports] == [("search", 1, 3), ("search", 2, 3), ("search", 3, 3)]


def test_heads_agree_as_their_links_do() -> None:
    recurrent = inspector("v1-recurrent")
    best = rank_agreement(inspector("v1").trace_pairs(SOURCES, TARGETS), recurrent.trace_pairs(TARGETS, SOURCES))[0]
    there = Aligner(inspector("v1").model, inspector("v1").vocab, (best.forward,)).links(SOURCES, TARGETS)
    back = Aligner(recurrent.model, recurrent.vocab, (best.backward,)).links(TARGETS, SOURCES)
    back = [frozenset((source, target) for target, source in links) for links in back]
    both = sum(len(one & other) for one, other in zip(there, back, strict=True))
    either = sum(len(one | other) for one, other in zip(there, back, strict=True))
    assert best.share == pytest.approx(both / either)


def test_a_head_chosen_on_one_half_is_scored_on_the_other() -> None:
    """Found, sure, found and sure, found and possible; a head for even sentences, one for odd, and one in between."""
    right, wrong, half = [2, 2, 2, 2], [2, 2, 0, 0], [2, 2, 1, 1]
    heads = [AlignmentHead(layer="decoder.attention", head=head) for head in range(3)]
    counts = [[right, wrong, right, wrong], [wrong, right, wrong, right], [half, half, half, half]]
    scores = {head: AlignmentScore(np.array(own)) for head, own in zip(heads, counts, strict=True)}
    assert AlignmentGrid(scores).ranked()[0][1].aer == 0.5
    assert AlignmentGrid(scores).held_out_aer() == 1.0
    assert AlignmentGrid({heads[2]: scores[heads[2]]}).held_out_aer() == 0.5


def test_the_share_on_the_diagonal_is_counted_over_links() -> None:
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=0)
    links = Aligner(inspector("v1").model, inspector("v1").vocab, (head,)).links(SOURCES, TARGETS)
    sizes = [(3, 3), (0, 1), (4, 3), (1, 2)]
    same = sum(len(found & diagonal(*size)) for found, size in zip(links, sizes, strict=True))
    assert diagonal_share(inspector("v1").trace_pairs(SOURCES, TARGETS), head) == same / sum(map(len, links))
    assert diagonal_share(inspector("v1").trace_pairs([""], ["a"]), head) == 0.0
