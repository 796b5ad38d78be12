"""Corpora that join a run on the way, by numbers small enough to count."""

import numpy as np
import pytest

from dragoman.data.course import Course
from dragoman.data.order import BatchConfig, CorpusCells, Order, plan


def order(*sizes: int) -> Order:
    """Each corpus has so many batches, of one pair each."""
    return plan([CorpusCells([np.array([[1, 1, size]])]) for size in sizes], BatchConfig(tokens=2), seed=1)


def corpora(course: Course, *indices: int) -> list[int]:
    return [course.at(index).corpus for index in indices]


def test_a_newcomer_waits_for_the_end_of_the_epoch() -> None:
    course = Course.of([(0, order(3)), (2, order(3, 4))])
    assert corpora(course, *range(6)) == [0] * 6
    assert sorted(corpora(course, *range(6, 13))) == [0] * 3 + [1] * 4
    assert sorted(corpora(course, *range(13, 20))) == [0] * 3 + [1] * 4
    assert course.num_batches == 7


def test_where_a_newcomer_can_join() -> None:
    course = Course.of([(0, order(3)), (2, order(3, 4))])
    assert [course.next_epoch(index) for index in (0, 1, 3, 4, 6, 7, 13, 14)] == [0, 1, 1, 2, 2, 3, 3, 4]


def test_two_may_join_in_the_same_epoch() -> None:
    course = Course.of([(0, order(3)), (1, order(3, 2)), (1, order(3, 2, 1))])
    assert sorted(corpora(course, *range(3, 9))) == [0, 0, 0, 1, 1, 2]


def test_a_course_begins_at_the_beginning_and_goes_on() -> None:
    with pytest.raises(ValueError, match="begins with epoch 0, not with 1"):
        Course.of([(1, order(3))])
    with pytest.raises(ValueError, match="not 1 after 2"):
        Course.of([(0, order(3)), (2, order(3, 1)), (1, order(3, 1, 1))])
    with pytest.raises(ValueError, match="no batch"):
        Course.of([(0, order(3))]).at(-1)
