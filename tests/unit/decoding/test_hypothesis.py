"""What a search gives back."""

import dataclasses

import pytest

from dragoman.decoding.hypothesis import Hypothesis, Result

FIRST = Hypothesis(tokens=(7, 5), log_probabilities=(-0.5, -0.25, -1.0), score=-1.25, cut=False)
SECOND = Hypothesis(tokens=(), log_probabilities=(-3.0,), score=-3.0, cut=True)


def test_the_log_probability_is_that_of_the_whole_target_with_its_end() -> None:
    assert FIRST.log_probability == -1.75
    assert SECOND.log_probability == -3.0


def test_the_best_is_the_first() -> None:
    assert Result((FIRST, SECOND)).best is FIRST
    assert Result((SECOND, FIRST)).best is SECOND


def test_a_result_has_no_history_by_default() -> None:
    assert Result((FIRST,)).history == ()


def test_a_result_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FIRST.score = 0.0  # type: ignore[misc]
