"""The learning rate, against the formulas of the paper and of those who came after, written out here once more."""

import math

import pytest
from pydantic import ValidationError

from dragoman.training.config import ScheduleConfig
from dragoman.training.schedule import SchedulePoint, learning_rate

D_MODEL = 512
LAST = 1000


def at(update: int, last: int = LAST, **config: object) -> float:
    return learning_rate(ScheduleConfig.model_validate(config), SchedulePoint(update, last, D_MODEL))


@pytest.mark.parametrize("update", [1, 7, 3999, 4000, 4001, 100_000])
def test_the_papers_rate_is_equation_3(update: int) -> None:
    up, down = update / (4000 * math.sqrt(4000)), 1 / math.sqrt(update)
    assert at(update) == pytest.approx((up if update < 4000 else down) / math.sqrt(512), rel=1e-12)


def test_the_papers_base_model_is_fastest_at_update_4000_with_7_in_ten_thousand() -> None:
    assert at(4000) == pytest.approx(6.99e-4, rel=1e-3)
    assert at(3999) < at(4000) > at(4001)


@pytest.mark.parametrize("warmup", [1, 10, 250])
@pytest.mark.parametrize("update", [1, 5, 10, 11, 250, 999, 1000])
def test_each_factor_has_its_closed_form(warmup: int, update: int) -> None:
    settings = {"rate": 0.3, "warmup": warmup}
    way = (update - warmup) / (LAST + 1 - warmup) if update > warmup else 0.0
    expected = {
        "warmup": update / warmup if update < warmup else 1.0,
        "inverse_sqrt": 1.0 if update < warmup else (update / warmup) ** -0.5,
        "cosine": math.cos(math.pi * way / 2) ** 2,
        "linear": 1.0 - way,
    }
    for factor, height in expected.items():
        assert at(update, factors=[factor], **settings) == pytest.approx(0.3 * height, rel=1e-12), factor


def test_factors_are_multiplied() -> None:
    settings = {"rate": 0.002, "warmup": 300, "floor": 0.1}
    for update in (1, 299, 300, 301, 650, 1000):
        alone = [at(update, factors=[factor], **settings) / 0.002 for factor in ("warmup", "inverse_sqrt", "cosine")]
        together = at(update, factors=["warmup", "inverse_sqrt", "cosine"], **settings)
        assert together == pytest.approx(0.002 * math.prod(alone), rel=1e-12)


@pytest.mark.parametrize("factor", ["cosine", "linear"])
def test_the_last_update_still_learns_and_none_would_after_it(factor: str) -> None:
    assert at(LAST, factors=[factor], warmup=100) > 0.0
    assert at(LAST + 1, factors=[factor], warmup=100) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("factor", ["cosine", "linear"])
def test_a_floor_is_where_it_ends(factor: str) -> None:
    assert at(1, factors=[factor], warmup=0, floor=0.25) > 0.99
    assert at(LAST + 1, factors=[factor], warmup=0, floor=0.25) == pytest.approx(0.25, rel=1e-12)
    assert at(5 * LAST, factors=[factor], warmup=0, floor=0.25) == pytest.approx(0.25, rel=1e-12)


def test_a_run_that_ends_within_its_warm_up_never_turns_down() -> None:
    assert at(40, last=40, factors=["warmup", "cosine"], warmup=50) == pytest.approx(40 / 50)


def test_a_warm_up_of_nothing_begins_at_the_top() -> None:
    assert at(1, factors=["warmup"], warmup=0, rate=0.7) == 0.7


@pytest.mark.parametrize(
    ("config", "mend"),
    [
        ({"factors": ["paper", "cosine"]}, "leave out cosine"),
        ({"factors": ["warmup", "warmup"]}, "duplicate factor"),
        ({"factors": ["inverse_sqrt"], "warmup": 0}, "need a warm-up"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(config: dict[str, object], mend: str) -> None:
    with pytest.raises(ValidationError, match=mend):
        ScheduleConfig.model_validate(config)
