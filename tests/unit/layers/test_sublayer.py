"""What surrounds a sub-layer, and the feed-forward, against their formulas."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from dragoman.layers.sublayer import Activation, FeedForward, Residual

pytestmark = pytest.mark.usefixtures("float64")

ROWS, LENGTH, D_MODEL, D_FF = 2, 3, 5, 7
EPSILON = 0.01


def layer_norm(x: Tensor, residual: Residual) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gain + bias, over the width alone."""
    normed = torch.empty_like(x)
    for row in range(x.shape[0]):
        for i in range(x.shape[1]):
            numbers = x[row, i].tolist()
            mean = sum(numbers) / len(numbers)
            variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
            normed[row, i] = torch.tensor([(number - mean) / math.sqrt(variance + EPSILON) for number in numbers])
    return normed * residual.norm.weight.detach() + residual.norm.bias.detach()


def made(norm: Literal["post", "pre"], dropout: float = 0.0) -> Residual:
    residual = Residual(D_MODEL, dropout, norm, EPSILON)
    nn.init.normal_(residual.norm.weight)
    nn.init.normal_(residual.norm.bias)
    return residual


def sublayer(x: Tensor) -> Tensor:
    return torch.sin(3 * x)


def test_post_norm_is_the_papers() -> None:
    residual, x = made("post"), torch.randn(ROWS, LENGTH, D_MODEL)
    ours = residual.join(x, sublayer(residual.enter(x)))
    torch.testing.assert_close(ours, layer_norm(x + sublayer(x), residual), rtol=0, atol=1e-12)


def test_pre_norm_leaves_the_stream_itself_alone() -> None:
    residual, x = made("pre"), torch.randn(ROWS, LENGTH, D_MODEL)
    ours = residual.join(x, sublayer(residual.enter(x)))
    torch.testing.assert_close(ours, x + sublayer(layer_norm(x, residual)), rtol=0, atol=1e-12)


def test_dropout_falls_on_the_sub_layers_output_before_it_is_added() -> None:
    residual = made("pre", dropout=0.5)
    x, output = torch.randn(ROWS, LENGTH, D_MODEL), torch.randn(ROWS, LENGTH, D_MODEL)
    added = residual.join(x, output) - x
    dropped = added == 0
    assert 0 < dropped.sum() < dropped.numel()
    torch.testing.assert_close(added[~dropped], 2 * output[~dropped], rtol=0, atol=1e-12)
    torch.testing.assert_close(residual.eval().join(x, output), x + output, rtol=0, atol=0)


def test_in_post_norm_the_norm_comes_after_the_dropout() -> None:
    residual = made("post", dropout=0.5)
    x, output = torch.randn(ROWS, LENGTH, D_MODEL), torch.randn(ROWS, LENGTH, D_MODEL)
    torch.manual_seed(1)
    ours = residual.join(x, output)
    torch.manual_seed(1)
    truth = layer_norm(x + residual.dropout(output), residual)
    torch.testing.assert_close(ours, truth, rtol=0, atol=1e-12)


def test_the_feed_forward_is_two_maps_with_a_ramp_between_at_each_position_alike() -> None:
    feed_forward, x = FeedForward(D_MODEL, D_FF), torch.randn(ROWS, LENGTH, D_MODEL)
    ours = feed_forward(x)
    w1, b1 = feed_forward.expand.weight.tolist(), feed_forward.expand.bias.tolist()
    w2, b2 = feed_forward.contract.weight.tolist(), feed_forward.contract.bias.tolist()
    for row in range(ROWS):
        for i in range(LENGTH):
            inner = [max(0.0, value) for value in affine(w1, b1, x[row, i].tolist())]
            assert len(inner) == D_FF
            torch.testing.assert_close(ours[row, i], torch.tensor(affine(w2, b2, inner)), rtol=0, atol=1e-12)


FORMULAS = {
    "relu": lambda x: max(0.0, x),
    "swish": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu-sigmoid": lambda x: x / (1 + math.exp(-1.702 * x)),
}


@pytest.mark.parametrize("activation", FORMULAS)
def test_every_activation_is_its_formula(activation: Activation) -> None:
    feed_forward, x = FeedForward(D_MODEL, D_FF, activation=activation), torch.randn(ROWS, LENGTH, D_MODEL)
    inner = feed_forward.expand(x).detach().apply_(FORMULAS[activation])
    torch.testing.assert_close(feed_forward(x), feed_forward.contract(inner), rtol=0, atol=1e-12)


def affine(weight: list[list[float]], bias: list[float], x: list[float]) -> list[float]:
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def test_the_optional_dropout_of_the_feed_forward_comes_after_the_ramp() -> None:
    feed_forward = FeedForward(D_MODEL, D_FF, dropout=0.5)
    x = torch.randn(ROWS, LENGTH, D_MODEL)
    torch.manual_seed(1)
    ours = feed_forward(x)
    torch.manual_seed(1)
    truth = feed_forward.contract(feed_forward.dropout(torch.relu(feed_forward.expand(x))))
    assert torch.equal(ours, truth)
    assert (ours - feed_forward.eval()(x)).abs().max() > 0.01
    assert FeedForward(D_MODEL, D_FF).dropout.rate == 0.0
