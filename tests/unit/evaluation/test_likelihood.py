"""Scoring text: each pair as if alone, in order, whatever batch it was in."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.bundle import open_bundle
from dragoman.decoding import scoring
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.torch_engine import load_model
from dragoman.evaluation import likelihood
from dragoman.evaluation.likelihood import Likelihood, score_pairs, total_likelihood
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import Vocab

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
SOURCES = ["two red dogs.", "ten", "", "four green women and three old tables.", "two red dogs.", "café 🙂"]
TARGETS = ["zwei rote Hunde.", "zehn alte Häuser.", "nichts", "vier", "zehn rote Hunde.", ""]


@pytest.fixture(scope="module")
def model() -> Seq2Seq[Any, Any]:
    return load_model(open_bundle(GOLDEN))


@pytest.fixture(scope="module")
def vocab() -> Vocab:
    return open_bundle(GOLDEN).vocab


def alone(model: Seq2Seq[Any, Any], vocab: Vocab, source: str, target: str) -> Likelihood:
    ids = [
        torch.from_numpy(side.encode([text]).ids.astype(np.int64))[None]
        for side, text in ((vocab.source, source), (vocab.target, target))
    ]
    return Likelihood(float(scoring.score(model, *ids).double().sum()), ids[1].shape[1])


@pytest.mark.parametrize("tokens", [1, 60, 2048])
def test_each_pair_is_scored_as_if_alone_and_in_its_place(
    monkeypatch: pytest.MonkeyPatch, tokens: int, model: Seq2Seq[Any, Any], vocab: Vocab
) -> None:
    monkeypatch.setattr(likelihood, "BATCH_TOKENS", tokens)
    found = score_pairs(model, vocab, SOURCES, TARGETS)
    expected = [alone(model, vocab, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    assert [score.num_tokens for score in found] == [score.num_tokens for score in expected]
    assert [score.log_probability for score in found] == pytest.approx(
        [score.log_probability for score in expected], abs=1e-4
    )


def test_the_right_translation_is_the_more_probable(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    right, *_, wrong, _ = score_pairs(model, vocab, SOURCES, TARGETS)
    assert right.per_token > -0.1
    assert wrong.log_probability < right.log_probability - 1.0


def test_a_search_result_has_the_score_that_the_search_gave_it(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    found = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    sources = list(found["scores"])
    scores = score_pairs(model, vocab, sources, [found["translations"][source] for source in sources])
    penalised = [Penalty().score(score.log_probability, score.num_tokens) for score in scores]
    assert penalised == pytest.approx(list(found["scores"].values()), abs=1e-4)


def test_both_sides_are_normalised_as_training_text_is(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    plain = score_pairs(model, vocab, SOURCES[:1], TARGETS[:1])
    assert score_pairs(model, vocab, ["  two\tred  dogs."], ["zwei rote  Hunde. "]) == plain


def test_progress_counts_pairs(monkeypatch: pytest.MonkeyPatch, model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    monkeypatch.setattr(likelihood, "BATCH_TOKENS", 60)
    calls: list[tuple[str, int, int | None]] = []
    score_pairs(model, vocab, SOURCES, TARGETS, lambda *what: calls.append(what))
    assert len(calls) > 2
    assert calls[-1] == ("score", 6, 6)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def test_the_whole_is_the_sum_and_its_perplexity_that_of_a_token() -> None:
    whole = total_likelihood([Likelihood(-3.0, 2), Likelihood(-7.0, 3)])
    assert whole == Likelihood(-10.0, 5)
    assert whole.per_token == -2.0
    assert whole.perplexity == math.exp(2.0)


def test_a_line_longer_than_the_model_is_refused_by_its_number(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    assert model.max_target is not None
    long = "rote " * (model.max_target + 1)
    with pytest.raises(ValueError, match=r"line 2 of the target has [\d,]+ tokens, but this model takes at most"):
        score_pairs(model, vocab, ["a", "a"], ["a", long])
    with pytest.raises(ValueError, match="line 1 of the source has"):
        score_pairs(model, vocab, [long, "a"], ["a", long])
