"""Scores: what they hold, what is refused. That the numbers are sacreBLEU's is for tests/parity/test_sacrebleu.py."""

import subprocess
import sys

import pytest

from dragoman.evaluation.metrics import Score, bleu, chrf, compare, parse_names, quick_bleu, quick_chrf, ter
from dragoman.evaluation.reading import Reading

REFERENCE = ["The cat sits on the mat today .", "A dog runs far away .", "Nobody knows the long way home ."]
CLOSE = ["The cat sits on a mat today .", "A dog runs far away .", "Nobody knew the long way home ."]
FAR = ["A cat was on the mat .", "Dogs run away .", "Nobody knows a way home ."]


def test_a_perfect_translation_has_the_best_score_of_each_metric() -> None:
    best = [
        score.value for score in (bleu(REFERENCE, REFERENCE), chrf(REFERENCE, REFERENCE), ter(REFERENCE, REFERENCE))
    ]
    assert best == pytest.approx([100.0, 100.0, 0.0], abs=1e-9)


def test_the_interval_is_the_mean_of_the_resamples_and_a_margin_around_it() -> None:
    score = Score(metric="BLEU", value=7.5, low=6.0, high=10.0, signature="s")
    assert (score.mean, score.margin, score.p_value) == (8.0, 2.0, None)


def test_the_order_of_metrics_and_systems_is_kept() -> None:
    scores = compare([FAR, CLOSE], [REFERENCE], ["ter", "bleu"])
    assert [[score.metric for score in of_one] for of_one in scores] == [["TER", "BLEU"]] * 2
    assert scores[0][0].value > scores[1][0].value
    assert scores[0][1].value < scores[1][1].value


def test_only_systems_after_the_first_have_p_values() -> None:
    first, second, third = compare([CLOSE, FAR, FAR], [REFERENCE], ["bleu"])
    assert first[0].p_value is None
    assert second[0].p_value == third[0].p_value
    assert second[0].p_value is not None
    assert 0.0 < second[0].p_value <= 1.0


def test_the_same_system_scores_the_same_alone_and_beside_others() -> None:
    [[alone]] = compare([CLOSE], [REFERENCE], ["bleu"])
    [[beside], _] = compare([CLOSE, FAR], [REFERENCE], ["bleu"])
    assert beside.value == alone.value
    assert (beside.low, beside.high) == pytest.approx((alone.low, alone.high), abs=1e-4)
    assert beside.signature == alone.signature


def test_tokenised_text_is_taken_as_it_is() -> None:
    glued = [line.replace(" .", ".") for line in REFERENCE]
    assert bleu(glued, REFERENCE).value == pytest.approx(100.0)
    assert bleu(glued, REFERENCE, reading=Reading(tokenised=True)).value < 90.0


def test_the_signature_tells_every_reading_from_every_other() -> None:
    flags = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    readings = [Reading(tokenised=a, lower_case=b, compounds=c) for a, b, c in flags]
    assert len({bleu(CLOSE, REFERENCE, reading=reading).signature for reading in readings}) == 8


def test_quick_scores_read_text_the_same_way() -> None:
    shouted = [line.upper() for line in REFERENCE]
    reading = Reading(tokenised=True, lower_case=True)
    assert quick_bleu(shouted, REFERENCE, reading=reading) == pytest.approx(100.0)
    assert quick_chrf(shouted, REFERENCE, reading=reading) == pytest.approx(100.0)
    assert quick_bleu(shouted, REFERENCE) < 50.0


def test_tokenised_text_in_many_lines_brings_no_warning_of_sacrebleus(caplog: pytest.LogCaptureFixture) -> None:
    quick_bleu(REFERENCE * 50, REFERENCE * 50)
    assert caplog.records == []


def test_different_numbers_of_lines_are_refused_with_both() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 3 references"):
        bleu(CLOSE[:2], REFERENCE)
    with pytest.raises(ValueError, match="3 hypotheses but 2 references"):
        quick_chrf(CLOSE, REFERENCE, REFERENCE[:2])


def test_nothing_to_score_and_nothing_to_compare_with_are_refused() -> None:
    with pytest.raises(ValueError, match="test set is empty"):
        bleu([], [])
    with pytest.raises(ValueError, match="no references"):
        bleu(CLOSE)


def test_names_of_metrics_are_read_in_our_order() -> None:
    assert parse_names("ter, BLEU") == ("bleu", "ter")
    assert parse_names("chrf++,chrf") == ("chrf", "chrf++")


@pytest.mark.parametrize(
    ("typed", "mend"), [("blue", "did you mean bleu?"), ("", "there are bleu, chrf, chrf\\+\\+, ter")]
)
def test_an_unknown_metric_is_answered_with_the_nearest(typed: str, mend: str) -> None:
    with pytest.raises(ValueError, match=f"no metric is named '{typed}'; {mend}"):
        parse_names(f"ter,{typed}")


def test_metrics_need_no_torch() -> None:
    code = "import sys; import dragoman.evaluation.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_interval_of_a_system_that_is_nearly_always_wrong_is_found_too() -> None:
    """Resamples without one matching character score a plain 0, which sacreBLEU alone cannot average with the rest."""
    score = chrf(["x", "yy", "zzz", "cat"], ["aaaa", "bbbbb", "cccccc", "cat"])
    assert 0.0 < score.value < 100.0
    assert score.low < score.value < score.high
