"""Intervals, criteria and verdicts, with numbers made up for both outcomes of every experiment."""

from pathlib import Path

import pytest

from dragoman.lab.experiment import Criterion, Experiment, Interval, Measurement
from dragoman.lab.run_experiment import experiment_names, load_experiment

LAB = Path(__file__).parents[3] / "docs" / "lab"


def interval(low: float, high: float) -> Interval:
    return Interval(mean=(low + high) / 2, low=low, high=high)


def beyond(criterion: Criterion, is_met: bool) -> Interval:
    """An interval on one side of the bound."""
    sign = 1 if (criterion.side == "above") == is_met else -1
    ends = sorted((criterion.bound + sign * 0.001, criterion.bound + sign * 5.0))
    return interval(*ends)


def made_up(experiment: Experiment, *are_met: bool) -> dict[str, Interval]:
    numbers = dict.fromkeys(experiment.numbers, interval(0.0, 1.0))
    rule = zip(experiment.criteria, are_met, strict=True)
    return numbers | {criterion.number: beyond(criterion, is_met) for criterion, is_met in rule}


def test_an_interval_is_that_of_students_t() -> None:
    three = Interval.of([1.0, 2.0, 3.0])
    assert three.mean == 2.0
    assert three.high == pytest.approx(2.0 + 4.303 / 3**0.5)
    assert three.low == pytest.approx(2.0 - 4.303 / 3**0.5)
    assert Interval.of([5.0, 5.0]) == interval(5.0, 5.0)


def test_many_seeds_give_an_interval_that_is_no_narrower_than_the_true_one() -> None:
    values = [0.0, 1.0] * 20
    assert Interval.of(values).high - 0.5 >= 2.02 * 0.506 / 40**0.5


def test_a_criterion_needs_the_whole_interval() -> None:
    above = Criterion(number="x", side="above", bound=1.0, reason="")
    below = Criterion(number="x", side="below", bound=1.0, reason="")
    for low, high, of_above, of_below in ((1.1, 2.0, True, False), (0.0, 0.9, False, True), (0.9, 1.1, None, None)):
        assert above.is_met(interval(low, high)) is of_above
        assert below.is_met(interval(low, high)) is of_below


@pytest.mark.parametrize("name", experiment_names())
def test_the_verdict_of_every_experiment_follows_its_rule(name: str) -> None:
    experiment = load_experiment(name)
    num = len(experiment.criteria)
    assert experiment.decide(made_up(experiment, *[True] * num)) == "holds"
    assert experiment.decide(made_up(experiment, *[False] * num)) == "fails as told"
    assert experiment.decide({}) == "undecided"
    for odd in range(num):
        wide = {experiment.criteria[odd].number: interval(-1e9, 1e9)}
        assert experiment.decide(made_up(experiment, *[True] * num) | wide) == "depends"
        assert experiment.decide(made_up(experiment, *[False] * num) | wide) == "depends"
        if num > 1:
            assert experiment.decide(made_up(experiment, *(i != odd for i in range(num)))) == "depends"


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_says_what_it_claims_predicts_and_teaches(name: str) -> None:
    experiment = load_experiment(name)
    texts = (experiment.claim, experiment.source, experiment.prediction, experiment.method)
    assert all(len(text) > 20 for text in texts)
    assert bool(experiment.lesson) == (LAB / f"{name}.json").is_file(), "a lesson follows from stored results"
    assert len({criterion.number for criterion in experiment.criteria}) == len(experiment.criteria)


def test_a_measurement_holds_no_number_that_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        Measurement(numbers={"x": float("nan")}, panels=())
