"""The presets are the paper's tables, line by line, and names that are nearly right are understood."""

import pytest

from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.presets import PRESETS, Printed, find_preset, preset

TABLE_3 = {  # the paper's columns: N, d_model, d_ff, h, d_k, d_v, P_drop; PPL, BLEU, params in millions
    "paper-base": (6, 512, 2048, 8, 64, 64, 0.1, 4.92, 25.8, 65),
    "paper-A-h1": (6, 512, 2048, 1, 512, 512, 0.1, 5.29, 24.9, None),
    "paper-A-h4": (6, 512, 2048, 4, 128, 128, 0.1, 5.00, 25.5, None),
    "paper-A-h16": (6, 512, 2048, 16, 32, 32, 0.1, 4.91, 25.8, None),
    "paper-A-h32": (6, 512, 2048, 32, 16, 16, 0.1, 5.01, 25.4, None),
    "paper-B-dk16": (6, 512, 2048, 8, 16, 64, 0.1, 5.16, 25.1, 58),
    "paper-B-dk32": (6, 512, 2048, 8, 32, 64, 0.1, 5.01, 25.4, 60),
    "paper-C-N2": (2, 512, 2048, 8, 64, 64, 0.1, 6.11, 23.7, 36),
    "paper-C-N4": (4, 512, 2048, 8, 64, 64, 0.1, 5.19, 25.3, 50),
    "paper-C-N8": (8, 512, 2048, 8, 64, 64, 0.1, 4.88, 25.5, 80),
    "paper-C-d256": (6, 256, 2048, 8, 32, 32, 0.1, 5.75, 24.5, 28),
    "paper-C-d1024": (6, 1024, 2048, 8, 128, 128, 0.1, 4.66, 26.0, 168),
    "paper-C-ff1024": (6, 512, 1024, 8, 64, 64, 0.1, 5.12, 25.4, 53),
    "paper-C-ff4096": (6, 512, 4096, 8, 64, 64, 0.1, 4.75, 26.2, 90),
    "paper-D-dropout0": (6, 512, 2048, 8, 64, 64, 0.0, 5.77, 24.6, None),
    "paper-D-dropout0.2": (6, 512, 2048, 8, 64, 64, 0.2, 4.95, 25.5, None),
    "paper-D-smoothing0": (6, 512, 2048, 8, 64, 64, 0.1, 4.67, 25.3, None),
    "paper-D-smoothing0.2": (6, 512, 2048, 8, 64, 64, 0.1, 5.47, 25.7, None),
    "paper-E": (6, 512, 2048, 8, 64, 64, 0.1, 4.92, 25.7, None),
    "paper-big": (6, 1024, 4096, 16, 64, 64, 0.3, 4.33, 26.4, 213),
}


@pytest.mark.parametrize("name", TABLE_3)
def test_a_preset_of_the_paper_is_its_row_of_table_3(name: str) -> None:
    num_layers, d_model, d_ff, num_heads, d_k, d_v, dropout, perplexity, bleu, parameters = TABLE_3[name]
    config = preset(name)
    assert isinstance(config, TransformerConfig)
    assert (config.num_encoder_layers, config.num_decoder_layers) == (num_layers, num_layers)
    assert (config.d_model, config.d_ff, config.num_heads) == (d_model, d_ff, num_heads)
    assert (config.key_width, config.value_width, config.dropout) == (d_k, d_v, dropout)
    assert config.positions == ("learned" if name == "paper-E" else "sinusoidal")
    assert (config.tie, config.norm, config.attention_bias) == ("all", "post", False)
    assert PRESETS[name].printed == Printed(perplexity, bleu, parameters)


def test_every_row_of_table_3_has_its_preset_and_nothing_else_claims_printed_results() -> None:
    assert {name for name in PRESETS if name.startswith("paper-")} == set(TABLE_3)
    assert {name for name, preset in PRESETS.items() if preset.printed} == set(TABLE_3)


def test_the_paper_model_has_its_english_german_vocabulary_unless_told_otherwise() -> None:
    config = preset("paper-base")
    assert (config.source_vocabulary, config.target_vocabulary) == (37_000, 37_000)
    config = preset("paper-base", vocabulary=8_192)
    assert (config.source_vocabulary, config.target_vocabulary) == (8_192, 8_192)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_label_smoothing_is_a_change_of_the_training_not_of_the_model(epsilon: float) -> None:
    name = f"paper-D-smoothing{epsilon:g}"
    assert preset(name) == preset("paper-base")
    assert find_preset(name).training == {"loss": {"label_smoothing": epsilon}}


def test_small_models_are_made_for_cpus() -> None:
    tiny, small = preset("tiny"), preset("small")
    assert isinstance(tiny, TransformerConfig)
    assert isinstance(small, TransformerConfig)
    assert (tiny.num_encoder_layers, tiny.num_decoder_layers, tiny.num_heads, tiny.dropout) == (4, 4, 4, 0.3)
    assert (tiny.d_model, tiny.d_ff) == (128, 256)
    assert (small.num_encoder_layers, small.num_decoder_layers, small.num_heads) == (3, 3, 4)
    assert (small.d_model, small.d_ff) == (256, 1024)


@pytest.mark.parametrize(
    ("name", "cell", "num_layers", "d_embedding", "context", "score", "locality"),
    [
        ("sutskever", "lstm", 4, 1000, "first", "additive", "global"),
        ("cho", "gru", 1, 100, "every", "additive", "global"),
        ("bahdanau", "gru", 1, 620, "bahdanau", "additive", "global"),
        ("luong-dot", "lstm", 4, 1000, "luong", "dot", "global"),
        ("luong-general", "lstm", 4, 1000, "luong", "general", "global"),
        ("luong-concat", "lstm", 4, 1000, "luong", "concat", "global"),
        ("luong-location", "lstm", 4, 1000, "luong", "location", "global"),
        ("luong-local-m", "lstm", 4, 1000, "luong", "general", "local-m"),
        ("luong-local-p", "lstm", 4, 1000, "luong", "general", "local-p"),
    ],
)
def test_a_model_before_the_paper_has_the_sizes_of_its_own_paper(
    name: str, cell: str, num_layers: int, d_embedding: int, context: str, score: str, locality: str
) -> None:
    config = preset(name)
    assert isinstance(config, RecurrentConfig)
    assert (config.cell, config.num_layers, config.d_embedding) == (cell, num_layers, d_embedding)
    assert (config.context, config.score, config.locality) == (context, score, locality)
    assert (config.d_model, config.bidirectional) == (1000, name == "bahdanau")
    assert config.reverse_source == (name == "sutskever")


def test_modern_is_base_with_what_came_later() -> None:
    config, base = preset("modern"), preset("paper-base")
    assert config == base.model_copy(update={"norm": "pre", "positions": "rotary", "activation": "swish"})


def test_convs2s_has_the_sizes_of_its_paper() -> None:
    """Section 5.1: for English to Romanian, 20 layers on either side, all of width 512 and kernels of 3."""
    config = preset("convs2s")
    assert isinstance(config, ConvolutionalConfig)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.kernel_size) == (20, 20, 3)
    assert (config.d_model, config.d_embedding, config.weight_norm) == (512, 512, True)


def test_every_preset_says_what_it_is_in_a_line_that_fits_its_table() -> None:
    assert {
        name: preset.description for name, preset in PRESETS.items() if not 10 <= len(preset.description) <= 40
    } == {}


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("papr-base", "paper-base"), ("base", "paper-base"), ("bahdanu", "bahdanau"), ("teeny", "tiny")],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"unknown preset '{wrong}': did you mean .*{meant}"):
        preset(wrong)


def test_a_name_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(ValueError, match=r"unknown preset 'xyzzy': choose one of paper-base, .*, convs2s"):
        preset("xyzzy")


def test_a_vocabulary_needs_a_token() -> None:
    with pytest.raises(ValueError, match="source_vocabulary"):
        preset("tiny", vocabulary=0)
