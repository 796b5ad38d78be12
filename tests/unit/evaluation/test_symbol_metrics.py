"""Error rates and exact match, computed by hand; intervals and p-values are those of sacreBLEU's resampling."""

import numpy as np
import pytest

from dragoman.evaluation.metric_options import METRIC_TITLES, METRICS, MetricName
from dragoman.evaluation.metrics import compare, corpus_value, score_translations
from dragoman.evaluation.symbol_metrics import edit_distance

# tomato, abbey, exit, ghoti: the nearest reference of the first line is the second, and of the third line too.
HYPOTHESES = ["T AH M AA T OW", "AE B", "EH K S IH T", ""]
REFERENCES = [
    ["T AH M EY T OW", "AE B IY", "EH G Z IH T", "F IH SH"],
    ["T AH M AA T OW", "AE B IY", "EH K S AH", "F IH SH"],
]


def value(metric: MetricName, hypotheses: list[str], *references: list[str]) -> float:
    return corpus_value(metric, hypotheses, references)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("", "", 0), ("a", "", 1), ("", "a b", 2), ("a b c", "a c", 1), ("a b c d", "b c d e", 2), ("a b", "b a", 2)],
)
def test_the_edit_distance(first: str, second: str, expected: int) -> None:
    assert edit_distance(first.split(), second.split()) == expected


def test_phoneme_errors_are_divided_by_the_length_of_the_nearest_reference() -> None:
    # Edits 0, 1, 2 and 3; lengths 6, 3, 5 and 3: two edits to either reference of "exit", and the longer one counts.
    assert value("per", HYPOTHESES, *REFERENCES) == pytest.approx(100 * 6 / 17)
    assert value("per", HYPOTHESES, *REFERENCES[::-1]) == pytest.approx(100 * 6 / 17)
    assert value("per", HYPOTHESES, REFERENCES[0]) == pytest.approx(100 * 7 / 17)


def test_a_word_is_right_if_it_equals_one_of_its_pronunciations() -> None:
    assert value("wer", HYPOTHESES, *REFERENCES) == 75.0
    assert value("exact", HYPOTHESES, *REFERENCES) == 25.0
    assert value("exact", HYPOTHESES, REFERENCES[0]) == 0.0
    assert value("wer", HYPOTHESES, REFERENCES[0]) == 100.0


def test_spaces_between_symbols_do_not_count_and_letter_case_does() -> None:
    assert value("exact", [" I_WALK  I_RUN\t"], ["I_WALK I_RUN"]) == 100.0
    assert value("exact", ["i_walk I_RUN"], ["I_WALK I_RUN"]) == 0.0
    assert value("per", ["aa  b"], ["AA b "]) == 50.0


def test_an_error_rate_may_exceed_100_and_nothing_for_nothing_is_right() -> None:
    assert value("per", ["A B C"], ["D"]) == 300.0
    assert value("per", [""], [""]) == 0.0
    assert value("per", ["A"], [""]) == 100.0
    assert value("exact", [""], [""]) == 100.0


def test_the_interval_is_that_of_resampled_lines() -> None:
    hypotheses, reference = [f"x {i % 3}" for i in range(200)], ["x 0"] * 200
    score = score_translations(hypotheses, [reference], ["exact"])["exact"]
    right = np.array([i % 3 == 0 for i in range(200)])
    resampled = right[np.random.default_rng(12345).choice(200, size=(1000, 200))].mean(axis=1) * 100
    low, high = np.sort(resampled)[[25, 974]]
    assert score.value == pytest.approx(33.5)
    assert score.high - score.low == pytest.approx(high - low, abs=1e-3)
    assert score.low + score.high == pytest.approx(2 * resampled.mean(), abs=1e-3)


def test_the_first_system_is_the_baseline_of_a_paired_test() -> None:
    reference = [f"{i} x" for i in range(100)]
    good, bad = [f"{i} x" if i % 9 else "x" for i in range(100)], [f"{i} x" if i % 2 else "" for i in range(100)]
    first, second = compare([good, bad], [reference], ["per", "wer", "exact"])
    assert [score.metric for score in first] == ["PER", "WER", "exact"]
    assert [score.p_value for score in first] == [None] * 3
    assert all(score.p_value is not None and score.p_value < 0.01 for score in second)
    alone = score_translations(bad, [reference], ["per"])["per"]
    assert (alone.value, alone.signature) == (second[0].value, second[0].signature)


def test_the_signature_says_what_is_counted_and_by_which_version() -> None:
    per, wer = score_translations(HYPOTHESES, REFERENCES, ["per", "wer"]).values()
    assert per.signature.startswith("nrefs:2|bs:1000|seed:12345|unit:symbol|version:dragoman-")
    assert "unit:line" in wer.signature


def test_every_metric_has_a_title() -> None:
    assert set(METRIC_TITLES) == set(METRICS)
