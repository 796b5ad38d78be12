"""How far a run goes when there is a clock."""

from itertools import pairwise

import pytest

from dragoman.training.config import StopConfig
from dragoman.training.time_budget import TimeBudget, checkpoint_interval, is_due


def budget(updates: int, time: str | None) -> TimeBudget:
    return TimeBudget(StopConfig.model_validate({"updates": updates, "time": time}))


def ran(budget: TimeBudget, seconds_of: list[float]) -> tuple[int, float, list[int]]:
    """Updates made, time taken, and the plans on the way, of a run whose updates take so long."""
    elapsed, plans = 0.0, []
    for update, seconds in enumerate(seconds_of, 1):
        elapsed += seconds
        if budget.plan(update, elapsed):
            plans.append(budget.last)
        if budget.is_over(update, elapsed):
            return update, elapsed, plans
    raise AssertionError("it never ended")


def test_without_a_clock_all_updates_are_made() -> None:
    assert ran(budget(150, None), [1e6] * 200) == (150, 150e6, [])


def test_a_fast_machine_makes_all_updates_and_plans_nothing() -> None:
    assert ran(budget(1000, "1h"), [0.1] * 2000)[::2] == (1000, [])


@pytest.mark.parametrize("seconds", [0.37, 2.0, 11.0])
def test_a_slow_machine_makes_fewer_and_ends_just_before_the_time(seconds: float) -> None:
    update, elapsed, plans = ran(budget(100_000, "1h"), [seconds] * 100_000)
    assert update == plans[-1] < 100_000
    assert 0.95 * 3600 <= elapsed <= 3600


def test_a_machine_that_slows_down_is_planned_anew() -> None:
    update, elapsed, plans = ran(budget(100_000, "1h"), [0.5] * 2000 + [2.0] * 10_000)
    assert len(plans) > 3
    assert plans == [plans[0], *sorted(plans[1:], reverse=True)]
    assert update == plans[-1]
    assert 0.95 * 3600 <= elapsed <= 3600


def test_a_machine_that_speeds_up_makes_more_but_never_more_than_were_asked_for() -> None:
    # the first updates of a run are slow
    update, _, plans = ran(budget(3000, "1h"), [20.0] * 10 + [0.1] * 10_000)
    assert plans[0] < 200
    assert max(plans) == 3000
    assert update == 3000


def test_a_machine_that_was_busy_at_first_is_not_held_to_its_past() -> None:
    plan = budget(100_000, "1000s")
    assert plan.plan(50, 300.0)  # 6 s each
    assert plan.last == 50 + round(670 / 6)
    assert plan.plan(200, 450.0)  # 1 s each since then
    assert plan.last == 200 + 520


def test_a_plan_that_is_off_by_a_hundredth_is_left_alone() -> None:
    plan = budget(100_000, "1000s")
    assert plan.plan(100, 97.0)
    last = plan.last
    assert last == 1000  # of 0.97 s each: three hundredths of the time are kept for what comes after them
    assert not plan.plan(200, 97.0 * 2 * 1.005)
    assert plan.last == last
    assert plan.plan(300, 97.0 * 3 * 1.05)
    assert plan.last < last


def test_the_last_update_is_no_new_plan() -> None:
    plan = budget(100, "1h")
    assert not plan.plan(100, 10.0)
    assert plan.is_over(100, 10.0)


def test_a_run_that_is_over_its_time_ends_at_once() -> None:
    plan = budget(1000, "10s")
    assert not plan.is_over(5, 9.9)
    assert plan.is_over(5, 10.0)
    assert plan.plan(10, 11.0)
    assert plan.last == 10


def test_a_clock_that_stands_still_plans_nothing() -> None:
    assert not budget(1000, "10s").plan(10, 0.0)


def test_a_number_of_updates_is_due_at_its_multiples() -> None:
    assert [update for update in range(1, 13) if is_due(4, update, 0.0, 0.0)] == [4, 8, 12]
    assert not is_due(None, 4, 100.0, 0.0)


def test_a_time_is_due_once_each_time_it_has_passed() -> None:
    moments = [0.0, 4.0, 9.9, 10.0, 14.0, 35.0, 39.0, 40.1]
    due = [now for before, now in pairwise(moments) if is_due(10.0, 3, now, before)]
    assert due == [10.0, 35.0, 40.1]


def test_a_machine_that_was_busy_at_first_is_not_thought_slow_for_ever() -> None:
    busy, elapsed = budget(100_000, "1h"), 0.0
    for update in range(1, 1501):
        elapsed += 6.0 if update <= 100 else 0.5
        busy.plan(update, elapsed)
    # 1,300 s are gone: two updates a second fit into what is left of the hour
    assert busy.last == pytest.approx(1500 + 2 * (0.97 * 3600 - 1300), rel=0.02)


def test_a_run_expects_the_time_of_its_updates_but_no_more_than_its_limit() -> None:
    assert budget(1000, None).expected_seconds(100, 30.0) == 300.0
    assert budget(1000, "200s").expected_seconds(100, 30.0) == 200.0
    assert budget(1000, "1h").expected_seconds(100, 30.0) == 300.0


def test_checkpoints_are_a_tenth_of_the_run_apart_within_limits() -> None:
    assert [checkpoint_interval(seconds) for seconds in (20.0, 480.0, 86_400.0)] == [10.0, 48.0, 600.0]


def test_a_slow_machine_plans_by_the_clock_not_by_the_number_of_updates() -> None:
    plan = budget(100_000, "1000s")
    assert plan.plan(10, 100.0)  # 10 s each
    assert not plan.plan(11, 110.0)
    assert plan.plan(13, 190.0)  # 30 s each since then
    assert plan.last < 13 + 780 / 10


def test_the_last_validation_fits_into_the_time() -> None:
    plan = budget(100_000, "1000s")
    plan.validation_seconds = 200.0
    assert plan.plan(10, 100.0)
    assert plan.last == 10 + 70


def test_a_run_that_is_given_more_time_goes_on_at_the_speed_it_had() -> None:
    before, after = budget(100_000, "1000s"), budget(100_000, "3000s")
    update, elapsed, _ = ran(before, [1.0] * 2000)
    after.load_state_dict(before.state_dict())
    assert not after.is_over(update, elapsed)
    assert after.last == pytest.approx(0.97 * 3000, rel=0.02)


def test_a_run_that_is_given_more_updates_or_no_time_makes_them_all() -> None:
    before = budget(100_000, "1000s")
    ran(before, [1.0] * 2000)
    for after in (budget(2000, "1h"), budget(2000, None)):
        after.load_state_dict(before.state_dict())
        assert after.last == 2000


def test_a_resumed_run_with_the_same_limits_keeps_its_plan() -> None:
    before, after = budget(100_000, "1000s"), budget(100_000, "1000s")
    before.plan(100, 97.0)
    for state in (before.state_dict(), {key: value for key, value in before.state_dict().items() if key != "time"}):
        after.load_state_dict(state)
        assert (after.last, after.measurements) == (before.last, before.measurements)
