"""How far a run goes when there is a clock."""

from itertools import pairwise

import pytest

from dragoman.training.config import StopConfig
from dragoman.training.pace import Pace, is_due


def pace(updates: int, time: str | None) -> Pace:
    return Pace(StopConfig.model_validate({"updates": updates, "time": time}))


def ran(pace: Pace, seconds_of: list[float]) -> tuple[int, float, list[int]]:
    """Updates made, time taken, and the plans on the way, of a run whose updates take so long."""
    elapsed, plans = 0.0, []
    for update, seconds in enumerate(seconds_of, 1):
        elapsed += seconds
        if pace.plan(update, elapsed):
            plans.append(pace.last)
        if pace.is_over(update, elapsed):
            return update, elapsed, plans
    raise AssertionError("it never ended")


def test_without_a_clock_all_updates_are_made() -> None:
    assert ran(pace(150, None), [1e6] * 200) == (150, 150e6, [])


def test_a_fast_machine_makes_all_updates_and_plans_nothing() -> None:
    assert ran(pace(1000, "1h"), [0.1] * 2000)[::2] == (1000, [])


@pytest.mark.parametrize("seconds", [0.37, 2.0, 11.0])
def test_a_slow_machine_makes_fewer_and_ends_just_before_the_time(seconds: float) -> None:
    update, elapsed, plans = ran(pace(100_000, "1h"), [seconds] * 100_000)
    assert update == plans[-1] < 100_000
    assert 0.95 * 3600 <= elapsed <= 3600


def test_a_machine_that_slows_down_is_planned_anew() -> None:
    update, elapsed, plans = ran(pace(100_000, "1h"), [0.5] * 2000 + [2.0] * 10_000)
    assert len(plans) > 3
    assert plans == [plans[0], *sorted(plans[1:], reverse=True)]
    assert update == plans[-1]
    assert 0.95 * 3600 <= elapsed <= 3600


def test_a_machine_that_speeds_up_makes_more_but_never_more_than_were_asked_for() -> None:
    # the first updates of a run are slow
    update, _, plans = ran(pace(3000, "1h"), [20.0] * 10 + [0.1] * 10_000)
    assert plans[0] < 200
    assert max(plans) == 3000
    assert update == 3000


def test_a_machine_that_was_busy_at_first_is_not_held_to_its_past() -> None:
    plan = pace(100_000, "1000s")
    assert plan.plan(50, 300.0)  # 6 s each
    assert plan.last == 50 + round(670 / 6)
    assert plan.plan(200, 450.0)  # 1 s each since then
    assert plan.last == 200 + 520


def test_a_plan_that_is_off_by_a_hundredth_is_left_alone() -> None:
    plan = pace(100_000, "1000s")
    assert plan.plan(100, 97.0)
    last = plan.last
    assert last == 1000  # of 0.97 s each: three hundredths of the time are kept for what comes after them
    assert not plan.plan(200, 97.0 * 2 * 1.005)
    assert plan.last == last
    assert plan.plan(300, 97.0 * 3 * 1.05)
    assert plan.last < last


def test_the_last_update_is_no_new_plan() -> None:
    plan = pace(100, "1h")
    assert not plan.plan(100, 10.0)
    assert plan.is_over(100, 10.0)


def test_a_run_that_is_over_its_time_ends_at_once() -> None:
    plan = pace(1000, "10s")
    assert not plan.is_over(5, 9.9)
    assert plan.is_over(5, 10.0)
    assert plan.plan(10, 11.0)
    assert plan.last == 10


def test_a_clock_that_stands_still_plans_nothing() -> None:
    assert not pace(1000, "10s").plan(10, 0.0)


def test_a_number_of_updates_is_due_at_its_multiples() -> None:
    assert [update for update in range(1, 13) if is_due(4, update, 0.0, 0.0)] == [4, 8, 12]
    assert not is_due(None, 4, 100.0, 0.0)


def test_a_time_is_due_once_each_time_it_has_passed() -> None:
    moments = [0.0, 4.0, 9.9, 10.0, 14.0, 35.0, 39.0, 40.1]
    due = [now for before, now in pairwise(moments) if is_due(10.0, 3, now, before)]
    assert due == [10.0, 35.0, 40.1]


def test_a_machine_that_was_busy_at_first_is_not_thought_slow_for_ever() -> None:
    busy, elapsed = pace(100_000, "1h"), 0.0
    for update in range(1, 1501):
        elapsed += 6.0 if update <= 100 else 0.5
        busy.plan(update, elapsed)
    # 1,300 s are gone: two updates a second fit into what is left of the hour
    assert busy.last == pytest.approx(1500 + 2 * (0.97 * 3600 - 1300), rel=0.02)
