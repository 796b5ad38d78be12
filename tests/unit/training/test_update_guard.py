"""Which updates are too strange to be made."""

import math

import pytest

from dragoman.training.config import GuardConfig
from dragoman.training.update_guard import UpdateGuard


def seasoned(num: int = 20, **config: object) -> UpdateGuard:
    guard = UpdateGuard(GuardConfig.model_validate(config))
    assert [guard.check(2.0 + 0.01 * (i % 3 - 1), 1.0) for i in range(num)] == [None] * num
    return guard


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_from_the_first_update_on(wrong: float) -> None:
    assert UpdateGuard(GuardConfig()).check(wrong, 1.0) == f"the loss is {wrong}"
    assert UpdateGuard(GuardConfig()).check(1.0, wrong) == f"the gradient norm is {wrong}"


def test_a_spike_is_refused_with_what_is_usual() -> None:
    assert seasoned().check(200.0, 1.0) == "the loss is 200, and the median 2"


def test_the_bound_is_a_multiple_of_the_usual_loss() -> None:
    guard = seasoned(spike=10.0)
    assert guard.check(19.9, 1.0) is None
    assert guard.check(20.1, 1.0) is not None


def test_before_20_losses_none_is_unusual() -> None:
    assert seasoned(19).check(200.0, 1.0) is None
    assert seasoned(20).check(200.0, 1.0) is not None


def test_without_a_bound_spikes_pass_but_nan_does_not() -> None:
    guard = seasoned(spike=None)
    assert guard.check(1e6, 1.0) is None
    assert guard.check(math.nan, 1.0) is not None


def test_what_was_refused_does_not_become_usual() -> None:
    guard = seasoned(most=1000)
    assert all(guard.check(200.0, 1.0) for _ in range(200))
    assert guard.check(2.0, 1.0) is None


def test_what_is_usual_follows_the_last_hundred() -> None:
    guard = seasoned(20)
    for _ in range(100):
        guard.check(0.1, 1.0)
    assert guard.check(2.0, 1.0) == "the loss is 2, and the median 0.1"


def test_more_than_the_allowed_number_in_a_row_is_enough() -> None:
    guard = UpdateGuard(GuardConfig(most=2))
    verdicts = []
    for loss in (math.nan, math.nan, 1.0, math.nan, math.nan, math.nan):
        guard.check(loss, 1.0)
        verdicts.append(guard.is_exhausted)
    assert verdicts == [False, False, False, False, False, True]
