"""The bill of a model before it is built: held against the models themselves, the paper, and arithmetic by hand."""

import subprocess
import sys

import pytest
import torch

from dragoman.models import cost
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.presets import PRESETS, preset

RECOUNT = {  # millions, V = 37,000: one shared matrix, no bias in Q, K, V and O
    "paper-base": "63.05",
    "paper-A-h1": "63.05",
    "paper-A-h4": "63.05",
    "paper-A-h16": "63.05",
    "paper-A-h32": "63.05",
    "paper-B-dk16": "55.97",
    "paper-B-dk32": "58.33",
    "paper-C-N2": "33.64",
    "paper-C-N4": "48.35",
    "paper-C-N8": "77.75",
    "paper-C-d256": "26.82",
    "paper-C-d1024": "163.82",
    "paper-C-ff1024": "50.45",
    "paper-C-ff4096": "88.24",
    "paper-D-dropout0": "63.05",
    "paper-D-dropout0.2": "63.05",
    "paper-D-smoothing0": "63.05",
    "paper-D-smoothing0.2": "63.05",
    "paper-big": "214.17",
}

# Two layers below, one above, one head; d 2, d_ff 3, d_k 4, d_v 5, and 7 tokens.
BY_HAND = TransformerConfig(
    source_vocabulary=7,
    target_vocabulary=7,
    d_model=2,
    d_ff=3,
    num_heads=1,
    d_k=4,
    d_v=5,
    num_encoder_layers=2,
    num_decoder_layers=1,
)


@pytest.mark.parametrize("name", RECOUNT)
def test_parameters_of_table_3_are_those_of_the_recount(name: str) -> None:
    assert f"{cost.parameters(preset(name)) / 1e6:.2f}" == RECOUNT[name]


def test_learned_positions_add_a_table_on_either_side() -> None:
    assert cost.parameters(preset("paper-E")) == cost.parameters(preset("paper-base")) + 2 * 1024 * 512


def test_tiny_has_the_2_6_million_of_its_reference_with_10_000_subwords() -> None:
    assert f"{cost.parameters(preset('tiny', vocabulary=10_000)) / 1e6:.1f}" == "2.6"


@pytest.mark.parametrize("name", PRESETS)
def test_the_closed_form_counts_what_the_model_really_has(name: str) -> None:
    config = preset(name, vocabulary=37)
    with torch.device("meta"):
        model = build(config)
    assert cost.parameters(config) == sum(parameter.numel() for parameter in model.parameters())


def test_parameters_by_part_are_those_computed_by_hand() -> None:
    assert {part.name: part.parameters for part in cost.parts(BY_HAND)} == {
        "embedding": 7 * 2,
        "encoder self-attention": 2 * (2 * 4 + 2 * 4 + 2 * 5 + 5 * 2),
        "encoder feed-forward": 2 * ((2 * 3 + 3) + (3 * 2 + 2)),
        "encoder norms": 2 * 2 * (2 + 2),
        "decoder self-attention": 2 * 4 + 2 * 4 + 2 * 5 + 5 * 2,
        "decoder cross-attention": 2 * 4 + 2 * 4 + 2 * 5 + 5 * 2,
        "decoder feed-forward": (2 * 3 + 3) + (3 * 2 + 2),
        "decoder norms": 3 * (2 + 2),
        "projection": 0,
    }


def test_flops_of_a_written_token_are_those_computed_by_hand() -> None:
    # 3 source tokens, then 2 target tokens, the first of which sees 1 of them and the second 2.
    assert cost.inference_flops(BY_HAND, source=3, target=2) == {
        "embedding": 0,
        "encoder self-attention": 2 * 2 * (3 * 36 + 3 * 3 * (4 + 5)) / 2,
        "encoder feed-forward": 2 * 2 * 3 * (6 + 6) / 2,
        "encoder norms": 0,
        "decoder self-attention": 2 * (2 * 36 + (1 + 2) * (4 + 5)) / 2,
        "decoder cross-attention": 2 * (2 * (8 + 10) + 3 * (8 + 10) + 2 * 3 * (4 + 5)) / 2,
        "decoder feed-forward": 2 * 2 * (6 + 6) / 2,
        "decoder norms": 0,
        "projection": 2 * 2 * (2 * 7) / 2,
    }


def test_a_training_step_is_three_forward_passes_over_all_its_sentences() -> None:
    pair = cost.forward_flops(BY_HAND, source=5, target=5)
    assert cost.training_flops(BY_HAND, tokens=40, length=5) == 3 * pair * 8


def test_longer_sentences_cost_more_for_the_same_tokens() -> None:
    """The n^2 part: twice the length, twice the pairs of positions for each token."""
    flops = [cost.training_flops(BY_HAND, tokens=120, length=length) for length in (10, 20, 30)]
    assert flops[2] - flops[1] == flops[1] - flops[0] > 0


def test_memory_is_four_bytes_a_number() -> None:
    memory = cost.memory(BY_HAND, tokens=40, length=5)
    num_parameters = cost.parameters(BY_HAND)
    assert (memory.weights, memory.gradients, memory.adam) == (
        4 * num_parameters,
        4 * num_parameters,
        8 * num_parameters,
    )
    assert memory.training == 16 * num_parameters + memory.activations
    assert (memory.cache_per_source_token, memory.cache_per_target_token, memory.cache_per_sentence) == (36, 36, 0)


def test_activations_grow_with_the_step_and_not_with_how_it_is_cut_into_sentences() -> None:
    once = cost.memory(BY_HAND, tokens=40, length=5).activations
    assert cost.memory(BY_HAND, tokens=120, length=5).activations == 3 * once
    assert cost.memory(BY_HAND, tokens=40, length=10).activations == once


def test_costs_are_read_without_torch() -> None:
    code = "import sys; from dragoman.models import cost, presets; "
    code += "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
