"""The share of the source: by hand, and by removing what contributes."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.attention.tap import Sight, Tap
from dragoman.inspection.source_share import apply_layer, source_share
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS

SOURCE, TARGET = [5, 9, 6, 11, EOS], [7, 4, 8, EOS]


def make(name: str) -> Seq2Seq:
    torch.manual_seed(4)
    if name == "recurrent":
        config = RecurrentConfig(source_vocabulary=17, target_vocabulary=17, d_model=8, d_embedding=6, tie="all")
        return build(config).double().eval()
    return build(
        TransformerConfig(
            source_vocabulary=17, target_vocabulary=17, d_model=12, d_ff=10, num_heads=3, d_k=5, d_v=7,
            num_encoder_layers=1, num_decoder_layers=2, norm=name, tie="all",
        )
    ).double().eval()  # fmt: skip


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_share_of_the_source_is_all_or_nothing_when_the_model_is(norm: str) -> None:
    model = make(norm)
    share = source_share(model, SOURCE, TARGET)
    assert share.shape == (4,)
    assert ((share > 0) & (share < 1)).all()

    def blind(sight: Sight) -> torch.Tensor | None:
        return torch.zeros_like(sight.weights) if sight.name.endswith("cross_attention") else None

    with Tap(model, blind):
        np.testing.assert_array_equal(source_share(model, SOURCE, TARGET), 0.0)
    assert isinstance(model, Transformer)
    with torch.no_grad():  # a source that drowns out whatever else there was
        for layer in model.decoder.layers:
            layer.get_submodule("cross_attention.output").weight.mul_(1e6)
    np.testing.assert_allclose(source_share(model, SOURCE, TARGET), 1.0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_pass_behind_the_share_is_the_models_own(norm: str) -> None:
    model = make(norm)
    assert isinstance(model, Transformer)
    read = torch.tensor([[BOS, *TARGET[:-1]]])
    memory = model.encode(torch.tensor([SOURCE]))
    x, share = model.decoder.embedding(read), torch.zeros(4, dtype=torch.float64)
    for layer, seen in zip(model.decoder.layers, model.decoder.remember(memory.hidden), strict=True):
        x, share = apply_layer(layer, x, share, seen, memory.visible)
    torch.testing.assert_close(model.decoder.norm(x), model.hidden(memory, read))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_share_is_the_l1_share_of_the_two_parts_in_a_model_of_one_layer(norm: str) -> None:
    """Before the first cross-attention all is prefix, so there is but one sum of two parts."""
    model = make(norm)
    assert isinstance(model, Transformer)
    model.decoder.layers = model.decoder.layers[:1]
    kept: dict[str, torch.Tensor] = {}
    layer = model.decoder.layers[0]
    around = layer.get_submodule("around_cross.norm")
    nn.init.uniform_(around.weight, 0.2, 3.0)
    around.register_forward_hook(lambda _, given, __: kept.update(x=given[0][0]))
    layer.get_submodule("cross_attention").register_forward_hook(lambda _, __, made: kept.update(c=made[0]))
    share = source_share(model, SOURCE, TARGET)
    x, c = kept["x"], kept["c"]
    if norm == "post":
        x = x - c  # the norm comes after the sum
        x, c = ((part - part.mean(-1, keepdim=True)) * around.weight for part in (x, c))
    whole = (x + c).abs().sum(-1)
    source, prefix = (whole - x.abs().sum(-1)).clamp_min(0), (whole - c.abs().sum(-1)).clamp_min(0)
    expected = (source / (source + prefix)).detach().numpy()
    assert np.unique(expected).size > 2
    np.testing.assert_allclose(share, expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_self_attention_passes_on_the_share_of_the_position_it_looks_at(norm: str) -> None:
    model = make(norm)
    assert isinstance(model, Transformer)
    with torch.no_grad():  # what is looked at drowns out what goes around
        model.get_submodule("decoder.layers.1.self_attention.output").weight.mul_(1e6)

    def at_first(sight: Sight) -> torch.Tensor | None:
        if sight.name == "decoder.layers.1.cross_attention":
            return torch.zeros_like(sight.weights)
        if sight.name == "decoder.layers.1.self_attention":
            return torch.zeros_like(sight.weights).index_fill(-1, torch.tensor([0]), 1.0)
        return None

    with Tap(model, at_first):
        found = source_share(model, SOURCE, TARGET)
    model.decoder.layers = model.decoder.layers[:1]
    below = source_share(model, SOURCE, TARGET)
    assert abs(below[0] - below[1:]).min() > 1e-3
    np.testing.assert_allclose(found, below[0], atol=1e-4)


def test_a_decoder_without_a_residual_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="Recurrent"):
        source_share(make("recurrent"), SOURCE, TARGET)
