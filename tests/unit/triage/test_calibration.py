"""Weights of the signals: fitted, stored, and moved to other translations."""

import math

import numpy as np
import pytest

from dragoman.bundle import open_bundle
from dragoman.triage.calibration import Calibration, fit_calibration, fit_logistic, load_calibration
from dragoman.triage.model_signals import Signals


def draw_lines(count: int = 4000) -> tuple[list[Signals], np.ndarray]:
    """Signals of which the first and the third tell the chance of a bad line."""
    draw = np.random.default_rng(3)
    table = draw.normal(size=(count, 6)) * [1, 2, 3, 4, 5, 6] + [5, 4, 3, 2, 1, 0]
    chances = 1 / (1 + np.exp(-(-1 + 1.5 * (table[:, 0] - 5) - 0.8 * (table[:, 2] - 3) / 3)))
    return [Signals(*row) for row in table.tolist()], draw.random(count) < chances


def fit(signals: list[Signals], is_bad: np.ndarray) -> Calibration:
    return fit_calibration(signals, np.where(is_bad, 0.39, 0.4).tolist(), model="0123", fitted_on="dev.tsv")


def test_the_fit_finds_the_weights_that_made_the_data() -> None:
    signals, is_bad = draw_lines()
    found = fit(signals, is_bad)
    weights = [found.signals[name].weight for name in Signals._fields]
    assert weights == pytest.approx([1.5, 0, -0.8, 0, 0, 0], abs=0.2)
    assert found.bias == pytest.approx(-1, abs=0.15)
    assert np.mean([found.chance(each) for each in signals]) == pytest.approx(is_bad.mean(), abs=0.01)
    assert Calibration.model_validate_json(found.model_dump_json()) == found


def test_the_fit_is_where_the_gradient_vanishes() -> None:
    draw = np.random.default_rng(5)
    inputs, is_bad = draw.normal(size=(80, 3)), draw.random(80) < 0.3
    shares = np.full(80, 1 / 80)
    weights = fit_logistic(inputs, is_bad, shares)
    columns = np.concatenate([np.ones((80, 1)), inputs], axis=1)
    gradient = columns.T @ (shares * (1 / (1 + np.exp(-columns @ weights)) - is_bad))
    np.testing.assert_allclose(gradient + 0.01 * np.array([0, *weights[1:]]), 0, atol=1e-9)


def test_important_lines_count_more() -> None:
    signals, is_bad = draw_lines(400)
    doubled = fit([*signals, *signals[:100]], np.concatenate([is_bad, is_bad[:100]]))
    weighed = fit_calibration(
        signals, np.where(is_bad, 0.1, 0.9).tolist(), model="", fitted_on="", importance=[2.0] * 100 + [1.0] * 300
    )
    point = signals[7]
    assert weighed.chance(point) == pytest.approx(doubled.chance(point), abs=0.01)
    assert fit(signals, is_bad).chance(point) != pytest.approx(weighed.chance(point), abs=1e-4)


def test_too_few_bad_lines_are_an_error() -> None:
    signals, _ = draw_lines(50)
    with pytest.raises(ValueError, match=r"dev.tsv: 9 of 50 translations .* at least 10"):
        fit(signals, np.arange(50) < 9)


def test_other_translations_are_compared_with_each_other() -> None:
    signals, is_bad = draw_lines(500)
    found = fit(signals, is_bad)
    moved = [each._replace(nll=each.nll + 100) for each in signals]
    assert min(map(found.chance, moved)) > 0.99
    recentred = found.recentre(moved)
    assert list(map(recentred.chance, moved)) == pytest.approx(list(map(found.chance, signals)))


def test_a_signal_that_is_not_known_has_no_effect() -> None:
    signals, is_bad = draw_lines(500)
    found = fit(signals, is_bad)
    unknown = [each._replace(uncovered=math.nan) for each in signals]
    assert "uncovered" not in found.effects(unknown[0])
    usual = signals[0]._replace(uncovered=found.signals["uncovered"].mean)
    assert found.chance(unknown[0]) == pytest.approx(found.chance(usual))
    assert 0 < found.recentre(unknown).chance(unknown[0]) < 1


def test_the_weights_in_the_package_are_for_the_built_in_model() -> None:
    """If this fails, the built-in model was replaced: run the command in the file to fit the weights again."""
    stored = load_calibration()
    assert stored.model == open_bundle("demo").model_sha256
    assert tuple(stored.signals) == Signals._fields
    assert "bench/triage.py --fit" in stored.fitted_on
    assert stored.signals["nll"].weight > 0
