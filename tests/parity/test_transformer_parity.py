"""The Transformer against torch's encoder and decoder stacks with the same weights: logits and every gradient.

What torch has no layer for (embedding, positions, the projection) is written out here, so the whole model is compared.
"""

import math
import random
from typing import Any, Literal, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention.multihead import MultiHead
from dragoman.layers.sublayer import FeedForward
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD

pytestmark = pytest.mark.usefixtures("float64", "no_fast_path")

SEEDS = range(50)
Norm = Literal["post", "pre"]
ACTIVATIONS: dict[str, Any] = {
    "relu": F.relu,
    "swish": F.silu,
    "gelu": F.gelu,
    "gelu-sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
}
Pairs = list[tuple[list[Tensor], Tensor]]
"""Parameters of ours and the one of torch's which is all of them stacked."""


@pytest.fixture
def no_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's inference kernels are another implementation: the comparison must not land there unnoticed."""

    def refuse(*_: Any) -> None:
        raise AssertionError("torch took its inference fast path")

    monkeypatch.setattr(torch, "_native_multi_head_attention", refuse)
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", refuse)


class Batch(NamedTuple):
    source: Tensor
    target: Tensor


def config_of(draw: random.Random, norm: Norm) -> TransformerConfig:
    """Sizes all different; how matrices are tied takes turns."""
    num_heads, d_head = draw.sample(range(2, 6), k=2)
    d_ff = draw.choice([width for width in range(7, 30) if width != num_heads * d_head])
    source, target = draw.sample(range(31, 50), k=2)
    num_encoder_layers, num_decoder_layers = draw.sample([1, 2], k=2)
    tie = draw.choice(["all", "target", "none"])
    activation, output_bias = draw.choice(list(ACTIVATIONS)), draw.choice([False, True])
    return TransformerConfig(
        source_vocabulary=target if tie == "all" else source,
        target_vocabulary=target,
        d_model=num_heads * d_head,
        d_ff=d_ff,
        num_heads=num_heads,
        num_encoder_layers=num_encoder_layers,
        num_decoder_layers=num_decoder_layers,
        attention_bias=True,
        output_bias=output_bias,
        activation=activation,
        norm=norm,
        norm_epsilon=draw.choice([1e-6, 1e-5, 1e-3]),
        dropout=0.0,
        tie=tie,
        max_positions=60,
    )


def batch_of(draw: random.Random, config: TransformerConfig) -> Batch:
    rows, source, target = draw.sample(range(2, 10), k=3)
    return Batch(
        tokens_of(rows, source, config.source_vocabulary, first=None),
        tokens_of(rows, target, config.target_vocabulary, first=BOS),
    )


def tokens_of(rows: int, length: int, vocabulary: int, first: int | None) -> Tensor:
    """Random rows of random lengths, padded; the first row is not full."""
    tokens = torch.randint(NUM_SPECIALS, vocabulary, (rows, length))
    lengths = torch.randint(1, length + 1, (rows, 1))
    lengths[0] = length - 1
    tokens = tokens.scatter(1, lengths - 1, EOS)
    if first is not None:
        tokens[:, 0] = first
    return tokens.masked_fill(torch.arange(length) >= lengths, PAD)


def weights_of(model: Transformer) -> tuple[nn.Module, nn.Module, Pairs]:
    """torch's stacks for this model, and whose parameter is whose."""
    config = model.config
    layer: dict[str, Any] = {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "layer_norm_eps": config.norm_epsilon,
        "activation": ACTIVATIONS[config.activation],
        "batch_first": True,
        "norm_first": config.norm == "pre",
    }
    norms = [nn.LayerNorm(config.d_model, config.norm_epsilon) if config.norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**layer), config.num_encoder_layers, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), config.num_decoder_layers, norms[1])
    pairs: Pairs = []
    for mine, other in zip(model.encoder.layers, encoder.layers, strict=True):
        pairs += encoder_layer(mine, other)
    for mine, other in zip(model.decoder.layers, decoder.layers, strict=True):
        pairs += decoder_layer(mine, other)
    for stack, last in zip((model.encoder, model.decoder), norms, strict=True):
        if last is not None:
            pairs += norm(stack, last)
    return encoder, decoder, pairs


def encoder_layer(mine: Any, other: Any) -> Pairs:
    return [
        *attention(mine.self_attention, other.self_attn),
        *feed_forward(mine.feed_forward, other),
        *norm(mine.around_attention, other.norm1),
        *norm(mine.around_feed_forward, other.norm2),
    ]


def decoder_layer(mine: Any, other: Any) -> Pairs:
    return [
        *attention(mine.self_attention, other.self_attn),
        *attention(mine.cross_attention, other.multihead_attn),
        *feed_forward(mine.feed_forward, other),
        *norm(mine.around_self, other.norm1),
        *norm(mine.around_cross, other.norm2),
        *norm(mine.around_feed_forward, other.norm3),
    ]


def attention(mine: MultiHead, other: Any) -> Pairs:
    inward = (mine.query, mine.key, mine.value)
    return [
        ([linear.weight for linear in inward], other.in_proj_weight),
        ([linear.bias for linear in inward], other.in_proj_bias),
        ([mine.output.weight], other.out_proj.weight),
        ([mine.output.bias], other.out_proj.bias),
    ]


def feed_forward(mine: FeedForward, other: Any) -> Pairs:
    return [
        ([mine.expand.weight], other.linear1.weight),
        ([mine.expand.bias], other.linear1.bias),
        ([mine.contract.weight], other.linear2.weight),
        ([mine.contract.bias], other.linear2.bias),
    ]


def norm(mine: Any, other: nn.LayerNorm) -> Pairs:
    return [([mine.norm.weight], other.weight), ([mine.norm.bias], other.bias)]


def unsettle(model: Transformer) -> None:
    """Biases and norms begin as zeros and ones, where a forgotten or swapped one would not show."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5, std=0.5)


class Reference:
    """Figure 1 put together from torch's layers, with tables of its own."""

    def __init__(self, model: Transformer) -> None:
        self.encoder, self.decoder, self.pairs = weights_of(model)
        tables: list[Any] = [model.encoder.embedding.tokens, model.decoder.embedding.tokens, model.projection]
        copies = {table.weight: nn.Parameter(table.weight.detach().clone()) for table in tables}
        self.source, self.target, self.output = (copies[table.weight] for table in tables)
        self.pairs += [([mine], other) for mine, other in copies.items()]
        bias = model.projection.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        if bias is not None:
            self.pairs.append(([bias], self.bias))
        with torch.no_grad():
            for mine, other in self.pairs:
                other.copy_(torch.cat(mine))

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(diagonal=1)
        memory = self.encoder(embed(self.source, source), src_key_padding_mask=source == PAD)
        hidden = self.decoder(
            embed(self.target, target),
            memory,
            tgt_mask=later,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        logits: Tensor = F.linear(hidden, self.output, self.bias)
        return logits


def embed(table: Tensor, tokens: Tensor) -> Tensor:
    d_model = table.shape[1]
    positions = torch.zeros(tokens.shape[1], d_model)
    for position in range(tokens.shape[1]):
        for i in range(d_model):
            angle = position / 10_000 ** (2 * (i // 2) / d_model)
            positions[position, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return F.embedding(tokens, table) * math.sqrt(d_model) + positions


def judged(logits: Tensor, target: Tensor) -> Tensor:
    """A loss that hears every logit at real positions and none at padding, whose logits mean nothing."""
    judge = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3))
    return (logits * judge * (target != PAD)[..., None]).sum()


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_whole_model_is_torchs_stacks(seed: int, norm: Norm) -> None:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    model = Transformer(config_of(draw, norm))
    unsettle(model)
    batch, reference = batch_of(draw, model.config), Reference(model)
    ours, theirs = model(*batch), reference(*batch)
    real = batch.target != PAD
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-10)
    torch.autograd.backward([judged(ours, batch.target), judged(theirs, batch.target)])
    compared = [parameter for mine, _ in reference.pairs for parameter in mine]
    assert set(compared) == set(model.parameters())
    for mine, other in reference.pairs:
        gradients = [parameter.grad for parameter in mine if parameter.grad is not None]
        torch.testing.assert_close(torch.cat(gradients), other.grad, rtol=0, atol=1e-10)


def test_a_missing_mask_would_be_seen() -> None:
    draw = random.Random(1)
    model = Transformer(config_of(draw, "post"))
    batch, reference = batch_of(draw, model.config), Reference(model)
    unmasked = batch.source.masked_fill(batch.source == PAD, EOS)
    real = batch.target != PAD
    assert (model(unmasked, batch.target) - reference(*batch))[real].abs().max() > 1e-3


def test_the_other_place_of_the_norm_would_be_seen() -> None:
    config = config_of(random.Random(2), "post")
    batch = batch_of(random.Random(2), config)
    torch.manual_seed(2)
    post = Transformer(config)
    torch.manual_seed(2)
    pre = Transformer(config.model_copy(update={"norm": "pre"}))
    assert (pre(*batch) - Reference(post)(*batch)).abs().max() > 1e-3
