"""Contributions are what their descriptions say: by hand, and by removing what is said to contribute."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.attention.tap import Sight, Tap
from dragoman.data.vocab import BOS, EOS, UNK
from dragoman.decoding.scoring import score
from dragoman.inspection.contributions import (
    encoder_rollout,
    gradient_x_input,
    norm_contributions,
    occlusion,
    source_share,
    through,
)
from dragoman.inspection.importance import GivenUpError
from dragoman.inspection.trace import Trace
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer

Traced = Callable[..., Trace]
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


def test_rollout_multiplies_the_layers_with_the_way_around_them(traced: Traced) -> None:
    trace = traced()
    first, second = (trace.attention[name].astype(np.float64).mean(0) for name in trace.names("encoder"))
    identity = np.eye(6)
    found = encoder_rollout(trace)
    np.testing.assert_allclose(found, (0.5 * identity + 0.5 * second) @ (0.5 * identity + 0.5 * first), atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1.0)
    np.testing.assert_allclose(encoder_rollout(trace, residual=0.0), second @ first, atol=1e-6)
    np.testing.assert_allclose(encoder_rollout(trace, measure="norm"), found, atol=1e-6)  # each is twice its weight


def test_rollout_needs_attention_in_the_encoder_and_a_sensible_residual(traced: Traced) -> None:
    with pytest.raises(ValueError, match="use occlusion"):
        encoder_rollout(replace(traced(), attention={}))
    with pytest.raises(ValueError, match="from 0 to below 1"):
        encoder_rollout(traced(), residual=1.0)


def test_norms_are_added_up_and_become_shares(traced: Traced) -> None:
    trace = traced()
    added = sum(trace.norms[name].astype(np.float64).sum(0) for name in trace.names("cross"))
    np.testing.assert_allclose(norm_contributions(trace), added / added.sum(1, keepdims=True))
    assert norm_contributions(trace, "decoder").shape == (4, 4)
    with pytest.raises(ValueError, match="no cross attention"):
        norm_contributions(replace(trace, attention={}))


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
def test_the_walk_behind_the_share_is_the_models_own(norm: str) -> None:
    model = make(norm)
    assert isinstance(model, Transformer)
    read = torch.tensor([[BOS, *TARGET[:-1]]])
    memory = model.encode(torch.tensor([SOURCE]))
    x, share = model.decoder.embedding(read), torch.zeros(4, dtype=torch.float64)
    for layer, seen in zip(model.decoder.layers, model.decoder.remember(memory.hidden), strict=True):
        x, share = through(layer, x, share, seen, memory.visible)
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


def test_the_share_of_the_source_is_for_transformers() -> None:
    with pytest.raises(ValueError, match="not for Recurrent: use occlusion"):
        source_share(make("recurrent"), SOURCE, TARGET)


@pytest.mark.parametrize("name", ["post", "pre", "recurrent"])
def test_occlusion_is_the_log_probability_lost(name: str) -> None:
    model = make(name)
    found = occlusion(model, SOURCE, TARGET)
    without = [5, 9, UNK, 11, EOS]
    plain, hidden = (score(model, torch.tensor([ids]), torch.tensor([TARGET]))[0] for ids in (SOURCE, without))
    np.testing.assert_allclose(found[:, 2], (plain - hidden).numpy(), atol=1e-9)
    assert found.shape == (4, 5)
    assert occlusion(model, SOURCE, TARGET, instead=6)[:, 2] == pytest.approx(0.0)


@pytest.mark.parametrize("name", ["post", "pre", "recurrent"])
def test_gradient_x_input_is_the_slope_of_making_a_token_fainter(name: str) -> None:
    model = make(name)
    found = gradient_x_input(model, SOURCE, TARGET)
    assert found.shape == (4, 5)
    embedding = model.get_submodule("encoder.embedding")
    table = embedding if isinstance(embedding, nn.Embedding) else embedding.get_submodule("tokens")

    @torch.no_grad()
    def said(by: float) -> np.ndarray:
        def fainter(_: nn.Module, __: object, made: torch.Tensor) -> torch.Tensor:
            return made * torch.tensor([1, 1, 1, by, 1], dtype=made.dtype)[:, None]

        hook = table.register_forward_hook(fainter)
        memory = model.encode(torch.tensor([SOURCE]))
        hook.remove()
        logits = model.decode(memory, torch.tensor([[BOS, *TARGET[:-1]]]))[0]
        return logits.log_softmax(-1)[range(4), TARGET].numpy()

    slope = (said(1 + 1e-5) - said(1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(found[:, 3], slope, rtol=1e-5, atol=1e-8)
    assert not table._forward_hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_both_tell_how_far_they_are_and_can_be_given_up() -> None:
    model = make("post")
    for measure, total in ((occlusion, 5), (gradient_x_input, 4)):
        told: list[tuple[int, int]] = []
        measure(model, SOURCE, TARGET, progress=lambda *done: told.append(done))  # noqa: B023
        assert told == [(i, total) for i in range(1, total + 1)]
        with pytest.raises(GivenUpError, match=f"after 2 of {total}"):
            measure(model, SOURCE, TARGET, progress=lambda done, _: done < 2)
