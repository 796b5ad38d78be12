"""The plain loop, with a chooser that says what it was shown."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.decoding.decode_loop import decode, next_log_probabilities, require_eval
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.rules import Rules
from dragoman.text.vocab import BOS, EOS

TABLES = (
    {BOS: {4: 0.5, 5: 0.25, EOS: 0.25}, 4: {5: 0.75, EOS: 0.25}, 5: {4: 0.5, EOS: 0.5}},
    {BOS: {5: 1.0}, 5: {EOS: 0.125, 4: 0.875}, 4: {5: 1.0}},
)
SOURCE = torch.tensor([[4, EOS], [5, EOS]])
PER_TOKEN = Penalty(formula="length", alpha=1.0)


def rules(longest: list[int]) -> Rules:
    return Rules(torch.tensor(longest), 1, torch.empty(len(longest), 0, dtype=torch.int64))


def script(*steps: list[int]) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    """A chooser that takes these tokens, whatever it is shown, and what it was shown."""
    shown: list[Tensor] = []

    def choose(log_probabilities: Tensor) -> Tensor:
        shown.append(log_probabilities)
        return torch.tensor(steps[len(shown) - 1])

    return choose, shown


def test_a_walk_writes_what_is_chosen_until_all_have_ended(bigram: Callable) -> None:
    choose, shown = script([4, 5], [EOS, 4], [5, 5], [4, EOS])
    first, second = decode(bigram(*TABLES, vocabulary=6), SOURCE, rules([9, 9]), PER_TOKEN, choose)
    assert len(shown) == 4
    assert first.tokens == (4,)
    assert first.log_probabilities == pytest.approx([math.log(0.5), math.log(0.25)], abs=1e-6)
    assert first.score == pytest.approx(math.log(0.125) / 2, abs=1e-6)
    assert second.tokens == (5, 4, 5)
    truth = [0.0, math.log(0.875), 0.0, math.log(0.125)]
    assert second.log_probabilities == pytest.approx(truth, abs=1e-6)
    assert second.score == pytest.approx(sum(truth) / 4, abs=1e-6)
    assert not first.cut
    assert not second.cut


def test_the_chooser_is_shown_the_models_distribution_under_the_rules(bigram: Callable) -> None:
    choose, shown = script([4, 5], [EOS, EOS])
    decode(bigram(*TABLES, vocabulary=6), SOURCE, rules([2, 2]), PER_TOKEN, choose)
    assert shown[0][0, [4, 5, EOS]].exp().tolist() == pytest.approx([0.5, 0.25, 0.25], abs=1e-6)
    assert shown[0][:, [0, BOS]].eq(-math.inf).all()
    ended = shown[1].isfinite()
    assert ended.tolist() == [[token == EOS for token in range(6)]] * 2
    assert shown[1][:, EOS].exp().tolist() == pytest.approx([0.25, 0.125], abs=1e-6)


def test_what_is_as_long_as_its_limit_was_cut(bigram: Callable) -> None:
    choose, _ = script([4, 5], [EOS, EOS])
    first, second = decode(bigram(*TABLES, vocabulary=6), SOURCE, rules([2, 3]), PER_TOKEN, choose)
    assert first.cut
    assert not second.cut


def test_an_output_may_end_at_once(bigram: Callable) -> None:
    choose, _ = script([EOS])
    found = decode(bigram(*TABLES, vocabulary=6), SOURCE[:1], rules([1]), PER_TOKEN, choose)
    truth = Hypothesis((), found[0].log_probabilities, found[0].log_probabilities[0], cut=True)
    assert found == [truth]
    assert truth.log_probabilities == pytest.approx([math.log(0.25)], abs=1e-6)


def test_a_walk_keeps_no_graph(bigram: Callable) -> None:
    model = bigram(*TABLES, vocabulary=6)
    model.logits.requires_grad_()
    choose, shown = script([EOS, EOS])
    decode(model, SOURCE, rules([9, 9]), PER_TOKEN, choose)
    assert not shown[0].requires_grad


@pytest.mark.parametrize(
    ("computed", "added"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_log_probabilities_are_at_least_in_single_precision(computed: torch.dtype, added: torch.dtype) -> None:
    logits = torch.randn(3, 7).to(computed)
    found = next_log_probabilities(logits)
    assert found.dtype == added
    truth = logits.double() - logits.double().exp().sum(dim=-1, keepdim=True).log()
    assert (found - truth).abs().max() <= 1e-6


@pytest.mark.parametrize("place", [0, 3, 6])
def test_scores_that_are_no_numbers_are_refused(place: int) -> None:
    logits = torch.zeros(3, 7)
    logits[1, place] = math.nan
    with pytest.raises(ValueError, match="the model's scores are NaN"):
        next_log_probabilities(logits)


def test_a_model_in_training_is_refused(bigram: Callable) -> None:
    model = bigram(*TABLES, vocabulary=6)
    require_eval(model)
    model.train()
    with pytest.raises(ValueError, match=r"the model is in training mode.*call model\.eval\(\) first"):
        require_eval(model)
    choose, shown = script([EOS, EOS])
    with pytest.raises(ValueError, match="training mode"):
        decode(model, SOURCE, rules([9, 9]), PER_TOKEN, choose)
    assert shown == []
