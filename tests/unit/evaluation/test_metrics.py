"""Scores: what they hold, what is refused. That the numbers are sacreBLEU's is for tests/parity/test_sacrebleu.py."""

import subprocess
import sys

import pytest

from dragoman.evaluation.metric_options import MetricOptions, parse_metrics
from dragoman.evaluation.metrics import (
    MetricScore,
    compare,
    corpus_value,
    score_translations,
    split_compounds,
)

REFERENCE = ["The cat sits on the mat today .", "A dog runs far away .", "Nobody knows the long way home ."]
CLOSE = ["The cat sits on a mat today .", "A dog runs far away .", "Nobody knew the long way home ."]
FAR = ["A cat was on the mat .", "Dogs run away .", "Nobody knows a way home ."]


def bleu(hypotheses: list[str], *references: list[str], options: MetricOptions | None = None) -> MetricScore:
    return score_translations(hypotheses, references, ["bleu"], options or MetricOptions())["bleu"]


def test_a_perfect_translation_has_the_best_score_of_each_metric() -> None:
    best = [score.value for score in score_translations(REFERENCE, [REFERENCE]).values()]
    assert best == pytest.approx([100.0, 100.0, 0.0], abs=1e-9)


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
    assert bleu(glued, REFERENCE, options=MetricOptions(tokenised=True)).value < 90.0


def test_the_signature_tells_every_reading_from_every_other() -> None:
    flags = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    variants = [MetricOptions(tokenised=a, lower_case=b, compounds=c) for a, b, c in flags]
    assert len({bleu(CLOSE, REFERENCE, options=options).signature for options in variants}) == 8


def test_quick_scores_read_text_the_same_way() -> None:
    shouted = [line.upper() for line in REFERENCE]
    options = MetricOptions(tokenised=True, lower_case=True)
    assert corpus_value("bleu", shouted, [REFERENCE], options) == pytest.approx(100.0)
    assert corpus_value("chrf", shouted, [REFERENCE], options) == pytest.approx(100.0)
    assert corpus_value("bleu", shouted, [REFERENCE]) < 50.0


def test_tokenised_text_in_many_lines_brings_no_warning_of_sacrebleus(caplog: pytest.LogCaptureFixture) -> None:
    corpus_value("bleu", REFERENCE * 50, [REFERENCE * 50])
    assert caplog.records == []


def test_different_numbers_of_lines_are_refused_with_both() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 3 references"):
        bleu(CLOSE[:2], REFERENCE)
    with pytest.raises(ValueError, match="3 hypotheses but 2 references"):
        corpus_value("chrf", CLOSE, [REFERENCE, REFERENCE[:2]])


def test_nothing_to_score_and_nothing_to_compare_with_are_refused() -> None:
    with pytest.raises(ValueError, match="test set is empty"):
        bleu([], [])
    with pytest.raises(ValueError, match="no references"):
        bleu(CLOSE)


def test_names_of_metrics_are_read_in_our_order() -> None:
    assert parse_metrics("ter, BLEU") == ("bleu", "ter")
    assert parse_metrics("chrf++,chrf") == ("chrf", "chrf++")


@pytest.mark.parametrize(
    ("typed", "hint"), [("blue", "did you mean bleu?"), ("", "choose from bleu, chrf, chrf\\+\\+, ter")]
)
def test_an_unknown_metric_is_answered_with_the_nearest(typed: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"'{typed}': {hint}"):
        parse_metrics(f"ter,{typed}")


def test_metrics_need_no_torch() -> None:
    code = "import sys; import dragoman.evaluation.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_interval_of_a_system_that_is_nearly_always_wrong_is_found_too() -> None:
    """Resamples without one matching character score a plain 0, which sacreBLEU alone cannot average with the rest."""
    score = score_translations(["x", "yy", "zzz", "cat"], [["aaaa", "bbbbb", "cccccc", "cat"]])["chrf"]
    assert 0.0 < score.value < 100.0
    assert score.low < score.value < score.high


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("a - b, -c and d-", "a - b, -c and d-"),
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a-ö-c", "a ##AT##-##AT## ö ##AT##-##AT## c"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("", ""),
    ],
)
def test_a_hyphen_between_two_letters_is_set_apart(line: str, split: str) -> None:
    assert split_compounds(line) == split


def test_the_parts_of_a_compound_count_as_words() -> None:
    reference = ["die U-Bahn-Station am Rathaus ist heute zu"]
    hypothesis = ["die Bus-Bahn-Station am Rathaus ist heute zu"]
    plain = bleu(hypothesis, reference, options=MetricOptions(tokenised=True))
    split = bleu(hypothesis, reference, options=MetricOptions(tokenised=True, compounds=True))
    assert split.value > plain.value
    assert "tok:none+compounds" in split.signature


def test_raw_text_is_tokenised_before_compounds_are_split_and_the_signature_says_so() -> None:
    reference = ["Die U-Bahn fährt heute, wie gestern, 2-mal."]
    raw = bleu(["Die S-Bahn fährt heute, wie gestern, 2-mal."], reference, options=MetricOptions(compounds=True))
    tokenised = [line.replace(",", " ,").replace("2-mal.", "2 - mal .") for line in reference]
    options = MetricOptions(tokenised=True, compounds=True)
    assert raw.value == bleu([tokenised[0].replace("U-Bahn", "S-Bahn")], tokenised, options=options).value
    assert "tok:13a+compounds" in raw.signature
