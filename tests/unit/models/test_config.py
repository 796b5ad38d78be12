"""A config refuses what cannot be built, and says how to mend it."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dragoman.config import Config
from dragoman.models.config import FAMILIES, ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig

VOCABULARIES = {"source_vocabulary": 31, "target_vocabulary": 31}


def transformer(**changes: Any) -> TransformerConfig:
    return TransformerConfig.model_validate(VOCABULARIES | changes)


def recurrent(**changes: Any) -> RecurrentConfig:
    return RecurrentConfig.model_validate(VOCABULARIES | changes)


def convolutional(**changes: Any) -> ConvolutionalConfig:
    return ConvolutionalConfig.model_validate(VOCABULARIES | changes)


def test_the_defaults_are_the_papers_base_model() -> None:
    config = transformer()
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.d_model, config.d_ff, config.num_heads) == (512, 2048, 8)
    assert (config.key_width, config.value_width) == (64, 64)
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.1, 0.0, 0.0)
    assert (config.norm, config.positions, config.tie, config.attention_bias) == ("post", "sinusoidal", "all", False)
    assert (config.activation, config.output_bias) == ("relu", False)


def test_widths_of_a_head_are_given_or_derived() -> None:
    assert (transformer(d_k=16).key_width, transformer(d_k=16).value_width) == (16, 64)
    assert (transformer(d_v=16).key_width, transformer(d_v=16).value_width) == (64, 16)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"d_modle": 512}, r"d_modle\n.*not permitted"),
        ({"d_model": 500}, "d_model 500 is not a multiple of num_heads 8: give d_k and d_v"),
        ({"d_model": 500, "d_k": 60}, "give d_k and d_v"),
        ({"target_vocabulary": 37}, "vocabulary sizes, not 31 and 37: use `tie: target`"),
        ({"norm": "middle"}, r"norm\n.*'post' or 'pre'"),
        ({"dropout": 1.0}, r"dropout\n.*less than 1"),
        ({"dropout": -0.1}, r"dropout\n.*greater than or equal to 0"),
        ({"num_heads": 0}, r"num_heads\n.*greater than or equal to 1"),
        ({"norm_epsilon": 0.0}, r"norm_epsilon\n.*greater than 0"),
        ({"positions": "alibi"}, r"positions\n.*'sinusoidal', 'sinusoidal-halves', 'learned', 'rotary' or 'none'"),
        ({"positions": "rotary", "d_k": 5}, "d_k is 5: give an even d_k"),
    ],
    ids=str,
)
def test_a_transformer_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        transformer(**changes)


def test_what_the_messages_propose_is_accepted() -> None:
    assert transformer(target_vocabulary=37, tie="target").tie == "target"
    assert transformer(d_model=500, d_k=60, d_v=60).key_width == 60


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cells": "gru"}, r"cells\n.*not permitted"),
        ({"d_model": 511}, "d_model 511 is odd"),
        ({"locality": "local-p"}, "local-p does not fit context: bahdanau"),
        ({"score": "dot"}, "score: dot does not work with context: bahdanau"),
        ({"context": "luong", "score": "location", "locality": "local-m"}, "score: location is a weight for each"),
        ({"context": "luong"}, "context: luong: use score: dot, general or concat"),
        ({"tie": "all", "target_vocabulary": 37}, "vocabulary sizes, not 31 and 37: use `tie"),
    ],
    ids=str,
)
def test_a_recurrent_model_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        recurrent(**changes)


def test_what_the_recurrent_messages_propose_is_accepted() -> None:
    assert recurrent(context="luong", score="dot", locality="local-p").locality == "local-p"
    assert recurrent(d_model=511, bidirectional=False).d_model == 511


def test_a_config_is_frozen() -> None:
    config = transformer()
    with pytest.raises(ValidationError, match="frozen"):
        config.d_model = 256  # type: ignore[misc]


@pytest.mark.parametrize(
    "config", [transformer(d_k=16), recurrent(cell="lstm"), convolutional()], ids=lambda config: config.family
)
def test_a_config_survives_json_and_its_family_says_what_it_is(config: ModelConfig) -> None:
    read = TypeAdapter[ModelConfig](ModelConfig).validate_json(config.model_dump_json())
    assert type(read) is type(config)
    assert read == config


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="'transformer', 'recurrent', 'convolutional'"):
        TypeAdapter[ModelConfig](ModelConfig).validate_python(VOCABULARIES | {"family": "lstmn"})


@pytest.mark.parametrize("kind", FAMILIES.values())
def test_every_field_is_documented(kind: type[Config]) -> None:
    undocumented = [name for name, field in kind.model_fields.items() if not field.description and name != "family"]
    assert undocumented == []


def test_a_config_is_read_without_torch() -> None:
    check = "import sys, dragoman.models.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
