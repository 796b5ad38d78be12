"""Experiments with trained or timed models: their parts agree with the product and with sums by hand."""

import pytest
import torch

from dragoman.bundle import demo_folder
from dragoman.decoding.search import greedy_search
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervene import counterfactual
from dragoman.lab.experiments import attention_explains, label_smoothing, layer_costs
from dragoman.lab.sentences import generate_sentences
from dragoman.text.vocab import EOS


def test_layers_are_counted_until_all_positions_are_connected() -> None:
    assert layer_costs.count_layers([layer_costs.taps(5, 1)]) == 1
    assert layer_costs.count_layers([layer_costs.taps(10, 1)] * 9) == 3
    assert layer_costs.count_layers(layer_costs.taps(25, 5**layer) for layer in range(9)) == 2
    assert layer_costs.count_layers(layer_costs.taps(26, 5**layer) for layer in range(9)) == 3


def test_a_model_that_is_sure_and_wrong_half_of_the_time_has_a_calibration_error_of_a_half() -> None:
    logits = torch.zeros(4, 6)
    logits[:, 2] = 100.0
    quality = label_smoothing.judge(logits, torch.tensor([2, 2, 3, 4]))
    assert (quality.accuracy, quality.calibration_error) == (0.5, pytest.approx(0.5))
    even = label_smoothing.judge(torch.zeros(3, 6), torch.tensor([1, 2, 3]))
    assert even.perplexity == pytest.approx(6.0)


def test_generated_sentences_differ_and_depend_on_the_seed_alone() -> None:
    first = generate_sentences(50, seed=1)
    assert len(set(first)) == 50
    assert first == generate_sentences(50, seed=1) != generate_sentences(50, seed=2)
    assert {4, 5, 6} & {len(text.split()) for text in first}


@pytest.mark.slow
def test_changed_attention_keeps_the_tokens_that_inspect_counts() -> None:
    inspector = Inspector.load(demo_folder())
    trace = inspector.trace("The teacher reads a book in the garden.")
    source, target = torch.tensor([trace.source.ids]), torch.tensor([trace.target.ids])
    counted = counterfactual(inspector.model, trace, seed=5)
    true = attention_explains.predict(inspector.model, source, target, []).argmax(dim=-1)
    first = true == target[0]
    change = [attention_explains.HeadsPermuted(where="cross", seed=5)]
    permuted = attention_explains.predict(inspector.model, source, target, change).argmax(dim=-1)
    assert (int(first.sum()), int((first & (permuted == target[0])).sum())) == (
        counted.num_tokens,
        counted.kept_permuted,
    )
    written = torch.tensor([[*greedy_search(inspector.model, source)[0].tokens, EOS]])
    attention = attention_explains.mean_attention(inspector.model, source, written)
    assert attention.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert attention_explains.rank_correlation(attention, attention[:, :-1]) == pytest.approx(1.0)
    assert attention_explains.rank_correlation(attention, -attention[:, :-1]) == pytest.approx(-1.0)
