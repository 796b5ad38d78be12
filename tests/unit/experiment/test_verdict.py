"""The verdict at the end of a run."""

import re

import pytest

from dragoman.experiment.verdict import expect_bleu, judge, spread


def test_a_poor_score_gets_advice_that_depends_on_the_trend() -> None:
    assert judge(2.7, True) != judge(2.7, False)
    assert judge(2.7, True).startswith("BLEU 2.7: not usable")


def test_a_good_score_gets_no_advice() -> None:
    assert judge(45.0, True) == judge(45.0, False)
    assert judge(100.0, False).startswith("BLEU 100.0: ")


def test_samples_come_from_all_parts_of_the_pairs() -> None:
    assert spread(list(range(100))) == [25, 50, 75]
    assert spread([7]) == [7]
    assert spread([1, 2]) == [1, 2]


def test_a_longer_time_is_advised_with_the_score_to_expect() -> None:
    assert re.search(r"--time 116m .*\b33\b", judge(17.4, True, time=480.0, num_pairs=29_000))
    assert "expect" not in judge(17.4, True, time=480.0, num_pairs=3_000)  # few pairs, not time, limit the score
    assert "expect" not in judge(17.4, True, num_pairs=29_000)
    assert "expect" not in judge(34.0, True, time=480.0, num_pairs=29_000)


def test_an_untrained_model_is_not_promised_more_than_the_measured_run_reached() -> None:
    assert 0 < expect_bleu(0.0, 20.0) < 33.0
    assert expect_bleu(2.7, 1000.0) == expect_bleu(30.0, 1000.0) == 35.9
    assert expect_bleu(17.4, 1.0) == pytest.approx(17.4)
