"""Multi-head attention against torch's own with the same weights: output, weights and every gradient, in float64."""

import random
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Tap

pytestmark = pytest.mark.usefixtures("float64", "no_fast_path")

SEEDS = range(50)
CROSS = ["nothing", "padding"]
SELF = [*CROSS, "later", "padding and later"]


class Shape(NamedTuple):
    """Sizes of one comparison, all different."""

    batch: int
    queries: int
    keys: int
    num_heads: int
    d_head: int

    @property
    def d_model(self) -> int:
        return self.num_heads * self.d_head


class Situation(NamedTuple):
    """What is hidden."""

    real: Tensor | None
    causal: bool


class Result(NamedTuple):
    output: Tensor
    weights: Tensor
    gradients: dict[str, Tensor]


def shape_of(seed: int) -> Shape:
    draw = random.Random(seed)
    while True:
        shape = Shape(*draw.sample(range(2, 10), k=5))
        if shape.d_model not in shape:
            return shape


def situation_of(hides: str, real: Tensor) -> Situation:
    return Situation(real if "padding" in hides else None, "later" in hides)


def padding_of(shape: Shape) -> Tensor:
    """True = a real key; the first key of every row is real, and some key of the batch is not."""
    lengths = torch.randint(1, shape.keys + 1, (shape.batch,))
    lengths[0] = shape.keys - 1
    return torch.arange(shape.keys) < lengths[:, None]


@pytest.fixture
def no_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's inference kernels are another implementation: the comparison must not land there unnoticed."""

    def refuse(*_: Any) -> None:
        raise AssertionError("torch took its inference fast path")

    monkeypatch.setattr(torch, "_native_multi_head_attention", refuse)
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", refuse)


def gradients_of(loss: Tensor, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def ours(attention: MultiHead, asking: Tensor, seen: Tensor, situation: Situation, judge: Tensor) -> Result:
    real, causal = situation
    visible = None if real is None else real[:, None, None]
    output = attention(asking, attention.remember(seen), visible, causal=causal)
    leaves = {"asking": asking, "seen": seen} | dict(attention.named_parameters())
    gradients = gradients_of((output * judge).sum(), leaves)
    with torch.no_grad(), Tap(attention) as tap:
        attention(asking, attention.remember(seen), visible, causal=causal)
    return Result(output, tap["attend"], gradients)


def theirs(attention: MultiHead, asking: Tensor, seen: Tensor, situation: Situation, judge: Tensor) -> Result:
    real, causal = situation
    reference = twin(attention)
    later = ~mask.causal(asking.shape[1]) if causal else None
    hidden = None if real is None else ~real
    output, weights = reference(
        asking, seen, seen, key_padding_mask=hidden, attn_mask=later, need_weights=True, average_attn_weights=False
    )
    leaves = {"asking": asking, "seen": seen} | dict(reference.named_parameters())
    gradients = gradients_of((output * judge).sum(), leaves)
    for kind in ("weight", "bias"):
        parts = gradients.pop(f"in_proj_{kind}").chunk(3)
        gradients |= {f"{name}.{kind}": part for name, part in zip(("query", "key", "value"), parts, strict=True)}
        gradients[f"output.{kind}"] = gradients.pop(f"out_proj.{kind}")
    return Result(output, weights, gradients)


def twin(attention: MultiHead) -> nn.MultiheadAttention:
    reference = nn.MultiheadAttention(attention.output.out_features, attention.num_heads, batch_first=True)
    inward = (attention.query, attention.key, attention.value)
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([linear.weight for linear in inward]))
        reference.in_proj_bias.copy_(torch.cat([linear.bias for linear in inward]))
        reference.out_proj.weight.copy_(attention.output.weight)
        reference.out_proj.bias.copy_(attention.output.bias)
    return reference.train()


def compare(attention: MultiHead, asking: Tensor, seen: Tensor, hides: str, real: Tensor) -> None:
    judge = torch.randn_like(asking)
    situation = situation_of(hides, real)
    a, b = ours(attention, asking, seen, situation, judge), theirs(attention, asking, seen, situation, judge)
    torch.testing.assert_close(a.output, b.output, rtol=0, atol=1e-10)
    torch.testing.assert_close(a.weights, b.weights, rtol=0, atol=1e-10)
    assert len(a.gradients) == 10
    torch.testing.assert_close(a.gradients, b.gradients, rtol=0, atol=1e-10)


@pytest.mark.parametrize("hides", CROSS)
@pytest.mark.parametrize("seed", SEEDS)
def test_attention_over_another_sequence_is_torchs(seed: int, hides: str) -> None:
    torch.manual_seed(seed)
    shape = shape_of(seed)
    asking = torch.randn(shape.batch, shape.queries, shape.d_model, requires_grad=True)
    seen = torch.randn(shape.batch, shape.keys, shape.d_model, requires_grad=True)
    compare(MultiHead(shape.d_model, shape.num_heads, bias=True), asking, seen, hides, padding_of(shape))


@pytest.mark.slow
@pytest.mark.parametrize("hides", SELF)
@pytest.mark.parametrize("seed", SEEDS)
def test_self_attention_is_torchs(seed: int, hides: str) -> None:
    torch.manual_seed(seed)
    shape = shape_of(seed)
    x = torch.randn(shape.batch, shape.keys, shape.d_model, requires_grad=True)
    compare(MultiHead(shape.d_model, shape.num_heads, bias=True), x, x, hides, padding_of(shape))


@pytest.mark.parametrize("hides", ["padding", "later", "padding and later"])
def test_a_forgotten_mask_would_be_seen(hides: str) -> None:
    shape = shape_of(0)
    attention = MultiHead(shape.d_model, shape.num_heads, bias=True)
    x = torch.randn(shape.batch, shape.keys, shape.d_model, requires_grad=True)
    judge, real = torch.randn_like(x), padding_of(shape)
    masked = theirs(attention, x, x, situation_of(hides, real), judge)
    forgotten = ours(attention, x, x, situation_of("nothing", real), judge)
    assert (masked.output - forgotten.output).abs().max() > 1e-3
    assert (masked.gradients["asking"] - forgotten.gradients["asking"]).abs().max() > 1e-3


def test_the_fast_path_would_be_refused() -> None:
    reference = twin(MultiHead(12, 4, bias=True)).eval()
    x = torch.randn(2, 4, 12)
    with torch.no_grad(), pytest.raises(AssertionError, match="fast path"):
        reference(x, x, x)
