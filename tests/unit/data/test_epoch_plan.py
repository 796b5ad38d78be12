"""Corpora that join a run on the way, by numbers small enough to count."""

import numpy as np
import pytest

from dragoman.data.order import BatchConfig, BatchOrder, CorpusCells, EpochPlan, plan_order


def order(*sizes: int) -> BatchOrder:
    """Each corpus has so many batches, of one pair each."""
    return plan_order([CorpusCells([np.array([[1, 1, size]])]) for size in sizes], BatchConfig(tokens=2), seed=1)


def corpora(plan: EpochPlan, *indices: int) -> list[int]:
    return [plan.at(index).corpus for index in indices]


def test_an_added_corpus_waits_for_the_end_of_the_epoch() -> None:
    plan = EpochPlan.of([(0, order(3)), (2, order(3, 4))])
    assert corpora(plan, *range(6)) == [0] * 6
    assert sorted(corpora(plan, *range(6, 13))) == [0] * 3 + [1] * 4
    assert sorted(corpora(plan, *range(13, 20))) == [0] * 3 + [1] * 4
    assert plan.num_batches == 7


def test_where_a_corpus_can_be_added() -> None:
    plan = EpochPlan.of([(0, order(3)), (2, order(3, 4))])
    assert [plan.next_epoch(index) for index in (0, 1, 3, 4, 6, 7, 13, 14)] == [0, 1, 1, 2, 2, 3, 3, 4]


def test_two_may_join_in_the_same_epoch() -> None:
    plan = EpochPlan.of([(0, order(3)), (1, order(3, 2)), (1, order(3, 2, 1))])
    assert sorted(corpora(plan, *range(3, 9))) == [0, 0, 0, 1, 1, 2]


def test_a_plan_begins_at_the_beginning_and_goes_on() -> None:
    with pytest.raises(ValueError, match="begins with epoch 1"):
        EpochPlan.of([(1, order(3))])
    with pytest.raises(ValueError, match="epoch 1 is listed after epoch 2"):
        EpochPlan.of([(0, order(3)), (2, order(3, 1)), (1, order(3, 1, 1))])
    with pytest.raises(ValueError, match="no batch"):
        EpochPlan.of([(0, order(3))]).at(-1)
