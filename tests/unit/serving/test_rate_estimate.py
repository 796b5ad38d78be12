"""The estimate of how long batches take."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.dispatcher import PRIOR_SLOPE, RateEstimate

FULL = 768


def learned(*batches: tuple[int, float], times: int = 1) -> RateEstimate:
    estimate = RateEstimate()
    for _ in range(times):
        for tokens, seconds in batches:
            estimate.add(tokens, seconds)
    return estimate


def test_before_the_first_batch_nothing_is_known_and_nobody_refused() -> None:
    assert RateEstimate().seconds(10**9, 1, FULL) == 0.0
    assert learned((100, 1.0)).seconds(0, 1, FULL) == 0.0


def test_as_long_as_all_batches_are_alike_the_same_again_takes_as_long_and_more_is_believed_to_be_cheaper() -> None:
    estimate = learned((100, 1.0), times=50)
    assert estimate.seconds(100, 1, FULL) == pytest.approx(1.0)
    assert estimate.seconds(200, 1, FULL) == pytest.approx(1.0 + PRIOR_SLOPE)


def test_from_batches_of_several_sizes_a_moment_for_each_and_a_little_for_each_token_is_learned() -> None:
    estimate = learned(*((tokens, 0.2 + 0.01 * tokens) for tokens in (20, 100, 400, 700)), times=30)
    for tokens in (50, 300, 700):
        assert estimate.seconds(tokens, 1, FULL) == pytest.approx(0.2 + 0.01 * tokens, rel=0.25)
    assert estimate.seconds(4 * FULL, 1, FULL) == pytest.approx(4 * (0.2 + 0.01 * FULL), rel=0.15)


def test_what_was_long_ago_is_forgotten() -> None:
    estimate = learned((50, 0.5), (100, 1.0), times=50)
    for _ in range(100):
        estimate.add(50, 0.05)
        estimate.add(100, 0.1)
    assert estimate.seconds(100, 1, FULL) == pytest.approx(0.1, rel=0.1)


def test_one_batch_that_takes_a_hundred_times_as_long_hardly_changes_the_estimate() -> None:
    estimate = learned((50, 0.05), (100, 0.1), times=50)
    estimate.add(100, 10.0)
    assert estimate.seconds(100, 1, FULL) < 0.13


def test_a_machine_that_became_slower_is_noticed_also_if_the_first_batches_took_no_time() -> None:
    for first in (0.0, 0.1):
        estimate = learned((50, first / 2), (100, first), times=20)
        for _ in range(100):
            estimate.add(50, 1.0)
            estimate.add(100, 2.0)
        assert estimate.seconds(100, 1, FULL) == pytest.approx(2.0, rel=0.1)


batches = st.lists(st.tuples(st.integers(2, 2000), st.floats(0, 60)), min_size=1, max_size=20)


@given(batches, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 64), st.integers(1, 2000))
def test_more_takes_longer_and_more_engines_less_long_whatever_was_seen(
    seen: list[tuple[int, float]], tokens: int, more: int, num_engines: int, full: int
) -> None:
    estimate = learned(*seen)
    one, two = estimate.seconds(tokens, num_engines, full), estimate.seconds(tokens + more, num_engines, full)
    assert 0.0 <= one <= two * (1 + 1e-9) + 1e-9
    assert math.isfinite(two)
    assert estimate.seconds(tokens, num_engines + 1, full) <= one * (1 + 1e-9) + 1e-9
    assert estimate.seconds(tokens, 0, full) == estimate.seconds(tokens, 1, full)
