"""Signals of a model, by hand, and chrF as sacreBLEU computes it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dragoman.triage.model_signals import (
    chrf,
    measure_disagreement,
    measure_entropy,
    measure_shortness,
    measure_uncovered,
)

TEXTS = st.text(alphabet="abcäß .,\u4e2d", max_size=20)


@given(TEXTS, TEXTS)
def test_chrf_is_that_of_sacrebleu(hypothesis: str, reference: str) -> None:
    assert 100 * chrf(hypothesis, reference) == pytest.approx(CHRF().sentence_score(hypothesis, [reference]).score)


def test_hypotheses_that_agree_raise_no_doubt() -> None:
    assert measure_disagreement("Der Hund schläft.", ["Der Hund schläft."] * 3) == pytest.approx(0)
    assert measure_disagreement("Der Hund schläft.", []) == 0
    mixed = measure_disagreement("Der Hund schläft.", ["Der Hund schläft.", "Quark"])
    assert mixed == pytest.approx(1 - (1 + chrf("Der Hund schläft.", "Quark")) / 2)


def test_attention_that_is_spread_has_a_high_entropy() -> None:
    assert measure_entropy(np.eye(3)) == pytest.approx(0, abs=1e-9)
    assert measure_entropy(np.full((2, 5), 0.2)) == pytest.approx(math.log(5))


def test_source_tokens_count_as_covered_up_to_once() -> None:
    weights = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]])
    assert measure_uncovered(weights, "written") == pytest.approx(2 / 3)  # the first token, twice
    assert measure_uncovered(weights, "read") == pytest.approx(1 - 1.5 / 3)


def test_only_a_target_that_is_too_short_is_short() -> None:
    assert measure_shortness("a" * 50, "b" * 20, 1.0) == pytest.approx(math.log(60 / 30))
    assert measure_shortness("a" * 50, "b" * 20, 0.4) == 0
    assert measure_shortness("a" * 50, "b" * 200, 1.0) == 0
    assert measure_shortness("a" * 50, "", None) == 0
