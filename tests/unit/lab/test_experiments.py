"""Every experiment runs at its smallest size, and its numbers are those of the product's functions."""

import math
from pathlib import Path

import pytest
import torch

from dragoman.attention.attend import Attend
from dragoman.attention.score import ScaledDot
from dragoman.attention.tap import Tap
from dragoman.lab.experiments import (
    batch_norm,
    gradient_distance,
    hi_how_are_you,
    order_blind,
    relative_offsets,
    square_root,
)
from dragoman.lab.result_page import PAGE_FILE, PICTURE_FILE, write_page
from dragoman.lab.run_experiment import experiment_names, run_experiment
from dragoman.layers.positions import Positions

SLOW = {
    "attention-explains",
    "attention-fusion",
    "attention-penalty",
    "beam-length",
    "causal-mask",
    "coreference",
    "exposure-bias",
    "fixed-vector",
    "head-learning",
    "label-smoothing",
    "layer-costs",
    "long-distance",
    "longer-sequences",
    "memory-hops",
    "memory-tape",
    "neighbours",
    "norm-place",
    "previous-word",
    "residuals",
    "salience",
    "score-functions",
    "sentence-vector",
    "several-heads",
    "short-attention",
    "source-reversed",
    "warm-up",
    "word-senses",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in experiment_names()]
)
def test_every_experiment_runs_and_writes_its_page(name: str, tmp_path: Path) -> None:
    result = run_experiment(name, tmp_path, 2, is_smallest=True)
    write_page(result, tmp_path / name)
    page = (tmp_path / name / PAGE_FILE).read_text(encoding="utf-8")
    assert result.verdict in ("holds", "fails as told", "depends")
    assert f"**Verdict: {result.verdict}.**" in page
    assert (tmp_path / name / PICTURE_FILE).stat().st_size > 1000


def test_the_entropy_is_that_of_the_weights_that_attention_uses() -> None:
    torch.manual_seed(3)
    query, key, upstream = torch.randn(7, 16), torch.randn(5, 16), torch.randn(7, 5)
    attend = Attend(ScaledDot())
    with Tap(attend) as maps:
        attend(query[None, None], key[None, None], key[None, None])
    [weights] = maps.values()
    expected = -(weights * weights.log()).sum(-1).mean() / math.log(5)
    assert square_root.observe(ScaledDot(), query, key, upstream)[1] == pytest.approx(float(expected), rel=1e-5)


def test_the_rotated_table_is_the_one_that_a_model_adds() -> None:
    table = Positions("sinusoidal", 50, 12).table.double().numpy()
    assert abs(relative_offsets.rotate(table, 9)[:-9] - table[9:]).max() < 1e-5
    assert abs(relative_offsets.rotate(table, 8)[:-9] - table[9:]).max() > 0.1


def test_a_transformer_without_positions_has_none_and_one_with_them_has() -> None:
    with torch.no_grad():
        blind, sighted = (order_blind.build_transformer(1, has) for has in (False, True))
    tokens = torch.tensor([[5, 5, 5]])
    states = blind.encode(tokens).hidden[0]
    assert torch.allclose(states[0], states[2], atol=1e-6)
    states = sighted.encode(tokens).hidden[0]
    assert not torch.allclose(states[0], states[2], atol=1e-2)


def test_the_gradient_of_a_recurrent_network_is_the_product_of_its_matrices() -> None:
    """With gain 0 only the last input matters."""
    torch.manual_seed(1)
    tokens = torch.randint(4, 50, (2, 6))
    gone = gradient_distance.log_gradients(gradient_distance.tanh_network(0.0), tokens)
    assert gone[0] > -3
    assert gone[1] == pytest.approx(-300)
    kept = gradient_distance.log_gradients(gradient_distance.tanh_network(0.5), tokens)
    assert kept[0] > kept[1] > kept[3] > -6


def test_the_worked_example_has_the_weights_of_a_calculator() -> None:
    weights = hi_how_are_you.weights(math.sqrt(6))
    powers = [math.exp(score / math.sqrt(6)) for score in (20, 11, 15, 21, 29, 24)]
    assert weights[1].tolist() == pytest.approx([power / sum(powers) for power in powers])
    divisor = hi_how_are_you.needed_divisor(0.5)
    assert hi_how_are_you.entropy(hi_how_are_you.weights(divisor)) == pytest.approx(0.5, abs=1e-6)


def test_a_batch_has_the_sentence_first_and_padding_only_at_ends() -> None:
    sentence = torch.tensor([7, 8, 9])
    batch = batch_norm.draw_batch(sentence, 5)
    assert batch[0, :3].tolist() == [7, 8, 9]
    is_padding = batch == 0
    assert torch.equal(is_padding, is_padding.cummax(dim=1).values)
    same = [torch.ones(2, 3)] * 3
    assert batch_norm.change(same) == 0.0
    assert batch_norm.change([torch.ones(2, 3), 2 * torch.ones(2, 3)]) == pytest.approx(1.0)
