"""The ranking of heads as data: the order, numbers and intervals of the scores that it is made of."""

import numpy as np
import pytest

from dragoman.alignment.error_rate import AlignmentScore
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.head_ranking import ENOUGH, rank_heads
from dragoman.inspection.head_search import AlignmentGrid

LAYERS = ["decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention"]


def grid(num_pairs: int) -> AlignmentGrid:
    """Heads with random counts; the mean of each layer ties with its head 0."""
    generator = np.random.default_rng(3)
    scores = {}
    for layer in LAYERS:
        for number in (0, 1):
            found = generator.integers(1, 9, num_pairs)
            right = generator.integers(0, found + 1)
            counts = np.stack([found, np.full(num_pairs, 8), right, right], axis=1)
            scores[AlignmentHead(layer=layer, head=number)] = AlignmentScore(counts)
        scores[AlignmentHead(layer=layer, head=None)] = scores[AlignmentHead(layer=layer, head=0)]
    return AlignmentGrid(scores)


def test_it_has_every_head_with_its_own_numbers_lowest_error_first() -> None:
    of_heads = grid(60)
    ranking = rank_heads(of_heads, LAYERS)
    assert [each.head for each in ranking.heads] == [head for head, _ in of_heads.ranked()]
    assert [each.aer for each in ranking.heads] == sorted(each.aer for each in ranking.heads)
    for each in ranking.heads:
        score = of_heads.scores[each.head]
        assert (each.aer, each.precision, each.recall) == (score.aer, score.precision, score.recall)
        assert (each.low, each.high) == pytest.approx(score.interval())
        assert each.low < each.aer < each.high
        assert LAYERS[each.layer] == each.head.layer
    assert ranking.held_out_aer == of_heads.held_out_aer()


def test_ties_with_the_best_are_known() -> None:
    best, other = rank_heads(grid(60), LAYERS).tied()
    assert best.aer == other.aer
    assert {best.head.head, other.head.head} == {0, None}


def test_few_pairs_are_few() -> None:
    assert rank_heads(grid(ENOUGH - 1), LAYERS).is_small
    assert not rank_heads(grid(ENOUGH), LAYERS).is_small
    assert rank_heads(grid(1), LAYERS).held_out_aer is None
