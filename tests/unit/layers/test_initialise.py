"""How weights begin: every linear map after Glorot and Bengio, each for its own shape."""

import math

import torch
from torch import Tensor, nn

from dragoman.layers.initialise import xavier
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer


def is_glorot_uniform(weight: Tensor) -> bool:
    """Variance 2 / (fan in + fan out), and no number beyond the edge of that uniform distribution.

    The sample variance of n uniform draws has a relative standard deviation of sqrt(0.8 / n) (its kurtosis is 9/5);
    five of them, which a right implementation leaves for one weight in two million.
    """
    fans = sum(weight.shape)
    inside = weight.abs().max().item() <= math.sqrt(6 / fans)
    return inside and abs(weight.var().item() * fans / 2 - 1) < 5 * math.sqrt(0.8 / weight.numel())


def test_every_linear_map_of_a_model_is_drawn_for_its_own_shape() -> None:
    config = TransformerConfig(
        source_vocabulary=50,
        target_vocabulary=60,
        d_model=48,
        d_ff=80,
        num_heads=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_k=20,
        d_v=7,
        attention_bias=True,
        tie="target",
    )
    linears = [module for module in Transformer(config).modules() if isinstance(module, nn.Linear)]
    assert len(linears) == 3 * 4 + 2 * 2
    for linear in linears:
        assert is_glorot_uniform(linear.weight.detach())
        assert torch.equal(linear.bias, torch.zeros_like(linear.bias))


def test_another_variance_would_be_seen() -> None:
    assert not is_glorot_uniform(nn.Linear(48, 80).weight.detach())
    assert not is_glorot_uniform(torch.randn(48, 80) * math.sqrt(2 / 128))


def test_embeddings_and_norms_begin_as_they_were_made() -> None:
    module = nn.Sequential(nn.Embedding(5, 6), nn.Linear(6, 7, bias=False), nn.LayerNorm(7))
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    xavier(module)
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, before[name]) == (name != "1.weight")
