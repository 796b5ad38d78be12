"""Length penalties against their formulas as printed, and the bound that stopping safely relies on."""

import math

import pytest
from pydantic import ValidationError

from dragoman.decoding.penalty import Penalty

ALPHAS = [-1.3, -0.5, 0.0, 0.6, 1.0, 2.0]
LENGTHS = [1, 2, 7, 50]
FORMULAS = ["gnmt", "length", "none"]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("length", LENGTHS)
def test_gnmt_is_the_formula_of_wu(length: int, alpha: float) -> None:
    truth = (5 + length) ** alpha / (5 + 1) ** alpha
    assert Penalty(formula="gnmt", alpha=alpha).divisor(length) == pytest.approx(truth, rel=1e-14)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("length", LENGTHS)
def test_length_is_a_power_of_the_length(length: int, alpha: float) -> None:
    truth = math.exp(alpha * math.log(length))
    assert Penalty(formula="length", alpha=alpha).divisor(length) == pytest.approx(truth, rel=1e-14)


@pytest.mark.parametrize("length", LENGTHS)
def test_none_compares_log_probabilities_as_they_are(length: int) -> None:
    assert Penalty(formula="none", alpha=2.0).divisor(length) == 1.0
    assert Penalty(formula="none", alpha=2.0).score(-7.5, length) == -7.5


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_exponent_has_the_slope_of_the_formula_at_the_usual_length(formula: str) -> None:
    penalty = Penalty(formula=formula, alpha=0.6)
    slope = math.log(penalty.divisor(21) / penalty.divisor(19)) / math.log(21 / 19)
    assert penalty.exponent == pytest.approx(slope, rel=1e-2)


@pytest.mark.parametrize("formula", FORMULAS)
def test_an_alpha_of_zero_is_no_penalty(formula: str) -> None:
    assert Penalty(formula=formula, alpha=0.0).score(-7.5, 9) == -7.5


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_target_of_one_token_is_never_penalised(formula: str) -> None:
    assert Penalty(formula=formula, alpha=1.7).score(-3.25, 1) == -3.25


def test_a_score_is_the_log_probability_over_the_divisor() -> None:
    assert Penalty(formula="length", alpha=1.0).score(-6.0, 4) == -1.5
    assert Penalty(formula="gnmt", alpha=1.0).score(-6.0, 7) == -3.0


@pytest.mark.parametrize("formula", ["gnmt", "length"])
def test_a_larger_alpha_favours_the_longer(formula: str) -> None:
    """By what part of a shorter one's score a longer target of the same log-probability scores: the less the better."""
    penalties = [Penalty(formula=formula, alpha=alpha) for alpha in ALPHAS]
    parts = [penalty.score(-5.0, 9) / penalty.score(-5.0, 3) for penalty in penalties]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] > 1.0 > parts[-1]


def test_the_default_is_the_papers() -> None:
    assert (Penalty().formula, Penalty().alpha) == ("gnmt", 0.6)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_best_future_score_is_the_least_bound(formula: str, alpha: float) -> None:
    """Nothing that can still happen passes it, and something reaches it: no more is added, and the best length met."""
    penalty = Penalty(formula=formula, alpha=alpha)
    for shortest, longest in [(1, 1), (1, 6), (3, 4), (2, 9)]:
        bound = penalty.best_future_score(-4.5, shortest, longest)
        futures = [penalty.score(-4.5 - more, n) for n in range(shortest, longest + 1) for more in (0.0, 0.1, 3.0)]
        assert bound == max(futures)


def test_which_end_bounds_the_future_depends_on_the_sign_of_alpha() -> None:
    assert Penalty(formula="length", alpha=1.0).best_future_score(-8.0, 2, 4) == -2.0
    assert Penalty(formula="length", alpha=-1.0).best_future_score(-8.0, 2, 4) == -16.0


@pytest.mark.parametrize("fields", [{"formula": "wu"}, {"strength": 0.6}, {"alpha": "much"}])
def test_what_a_penalty_is_not_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Penalty(**fields)


def test_a_penalty_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Penalty().alpha = 1.0
