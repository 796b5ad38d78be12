"""Parameters as arrays and back: each once, all of them, and only into the model they belong to."""

import numpy as np
import pytest
import torch

from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.cost import parameters
from dragoman.models.weights import freeze_parts, load_weights, weights_of

SIZES = {"source_vocabulary": 23, "target_vocabulary": 23}
SMALL = {
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "max_positions": 9,
}
CONFIGS: dict[str, ModelConfig] = {
    "tied": TransformerConfig.model_validate({**SMALL, **SIZES}),
    "target tied": TransformerConfig.model_validate({**SMALL, **SIZES, "tie": "target", "norm": "pre"}),
    "untied, learned": TransformerConfig.model_validate({**SMALL, **SIZES, "tie": "none", "positions": "learned"}),
    "bahdanau": RecurrentConfig(d_model=14, d_embedding=6, **SIZES),
    "luong, tied": RecurrentConfig(
        d_model=14, d_embedding=14, cell="lstm", context="luong", score="general", tie="all", **SIZES
    ),
    "convs2s": ConvolutionalConfig(
        d_model=14, d_embedding=6, num_encoder_layers=2, num_decoder_layers=1, max_positions=9, **SIZES
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_another_model_given_the_weights_is_the_same_model(config: ModelConfig) -> None:
    one, other = build(config).eval(), build(config).eval()
    source, target = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    assert not torch.equal(one(source, target), other(source, target))
    weights = weights_of(one)
    assert sum(array.size for array in weights.values()) == parameters(config)
    load_weights(other, weights)
    assert torch.equal(one(source, target), other(source, target))
    assert {name: tuple(value.shape) for name, value in one.state_dict().items()} == {
        name: tuple(value.shape) for name, value in other.state_dict().items()
    }


def test_tied_matrices_stay_one_matrix_after_loading() -> None:
    model = build(CONFIGS["tied"])
    load_weights(model, weights_of(build(CONFIGS["tied"])))
    assert model.projection.weight is model.get_parameter("encoder.embedding.tokens.weight")


def test_the_weights_are_a_copy_in_float32() -> None:
    model = build(CONFIGS["bahdanau"]).double()
    weights = weights_of(model)
    before = weights["embedding.weight"].copy()
    with torch.no_grad():
        model.get_parameter("embedding.weight").zero_()
    assert weights["embedding.weight"].dtype == np.float32
    np.testing.assert_array_equal(weights["embedding.weight"], before)


def test_weights_of_another_model_are_refused_by_name() -> None:
    model = build(CONFIGS["tied"])
    before = weights_of(model)
    weights = weights_of(build(CONFIGS["tied"]))
    value = weights.pop("encoder.layers.1.feed_forward.expand.bias")
    with pytest.raises(ValueError, match=r"encoder\.layers\.1\.feed_forward\.expand\.bias has no value \(1 differ"):
        load_weights(model, weights)
    with pytest.raises(ValueError, match=r"an_extra is not a parameter of the model \(2 differ"):
        load_weights(model, weights | {"an_extra": value})
    weights["encoder.layers.1.feed_forward.expand.bias"] = value[:-1]
    with pytest.raises(ValueError, match=r"expand\.bias has shape \(19,\) instead of \(20,\)"):
        load_weights(model, weights)
    for name, array in weights_of(model).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_belongs_to_one_part_that_can_be_frozen(name: str) -> None:
    frozen = {}
    for part in ("embeddings", "encoder", "decoder"):
        model = build(CONFIGS[name])
        freeze_parts(model, [part])
        frozen[part] = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
        assert frozen[part]
    assert sum(len(names) for names in frozen.values()) == len(set().union(*frozen.values()))
    assert set().union(*frozen.values()) == {name for name, _ in build(CONFIGS[name]).named_parameters()}
    num_tables = {"tied": 1, "luong, tied": 1}.get(name, 2)
    assert len(frozen["embeddings"]) == num_tables  # learned positions and a separate projection are not among them
    assert all(part.startswith("encoder.") for part in frozen["encoder"])
    assert ("projection.tokens.weight" in frozen["decoder"]) == (name in ("untied, learned", "bahdanau", "convs2s"))
