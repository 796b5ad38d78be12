"""The Transformer, in the order of section 3 of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.multihead import KeyValue, MultiHead
from dragoman.layers.embedding import Embedding, Projection, token_table
from dragoman.layers.initialise import xavier
from dragoman.layers.positions import Positions
from dragoman.layers.sublayer import FeedForward, Residual
from dragoman.models.config import TransformerConfig
from dragoman.models.seq2seq import Logits, Seq2Seq, Source, State
from dragoman.text.vocab import PAD

Hidden = Float[Tensor, "batch n d_model"]
Visible = Bool[Tensor, "batch 1 1 source"]


@dataclass(frozen=True)
class TransformerMemory:
    """The output of the encoder, and the mask that hides padding."""

    hidden: Float[Tensor, "batch source d_model"]
    visible: Visible


@dataclass(frozen=True)
class TransformerState(State):
    """The keys and values of each decoder layer, for the target so far and for the source."""

    position: int
    written: tuple[KeyValue, ...]
    source: tuple[KeyValue, ...]
    visible: Visible
    owner: Int[Tensor, " rows"]
    """The source index of each row."""

    def select(self, rows: Int[Tensor, " rows"]) -> "TransformerState":
        written = tuple(cache.select(rows) for cache in self.written)
        owner = self.owner.index_select(0, rows)
        if torch.equal(owner, self.owner):  # beams moved within their sentences: the source's part stays where it is
            return TransformerState(self.position, written, self.source, self.visible, owner)
        source = tuple(cache.select(rows) for cache in self.source)
        return TransformerState(self.position, written, source, self.visible.index_select(0, rows), owner)


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _multihead(config, rotary=config.positions == "rotary")
        self.feed_forward = _feed_forward(config)
        self.around_attention = _residual(config)
        self.around_feed_forward = _residual(config)

    def forward(self, x: Hidden, visible: Visible) -> Hidden:
        y = self.around_attention.enter(x)
        x = self.around_attention.join(x, self.self_attention(y, self.self_attention.remember(y), visible))
        y = self.around_feed_forward.enter(x)
        return self.around_feed_forward.join(x, self.feed_forward(y))


class DecoderLayer(nn.Module):
    """A decoder layer: masked self-attention, cross-attention to the encoder output, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _multihead(config, rotary=config.positions == "rotary")
        self.cross_attention = _multihead(config)
        self.feed_forward = _feed_forward(config)
        self.around_self = _residual(config)
        self.around_cross = _residual(config)
        self.around_feed_forward = _residual(config)

    def forward(self, x: Hidden, past: KeyValue | None, source: KeyValue, visible: Visible) -> tuple[Hidden, KeyValue]:
        """Return the output, and the keys and values of all positions so far.

        `past` holds the keys and values of earlier positions; with None, `x` is a whole target under a causal mask.
        """
        y = self.around_self.enter(x)
        start = 0 if past is None else past.key.shape[2]
        new = self.self_attention.remember(y, start)
        written = new if past is None else past.append(new)
        x = self.around_self.join(x, self.self_attention(y, written, causal=past is None, start=start))
        y = self.around_cross.enter(x)
        x = self.around_cross.join(x, self.cross_attention(y, source, visible))
        y = self.around_feed_forward.enter(x)
        return self.around_feed_forward.join(x, self.feed_forward(y)), written


class TransformerEncoder(nn.Module):
    """The source embedding and N encoder layers."""

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = _embedding(config, tokens)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.norm = _final_norm(config)

    def forward(self, source: Source, visible: Visible) -> Float[Tensor, "batch source d_model"]:
        x = self.embedding(source)
        for layer in self.layers:
            x = layer(x, visible)
        hidden: Tensor = self.norm(x)
        return hidden


class TransformerDecoder(nn.Module):
    """The target embedding and N decoder layers."""

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = _embedding(config, tokens)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.norm = _final_norm(config)

    def remember(self, memory: Float[Tensor, "batch source d_model"]) -> tuple[KeyValue, ...]:
        """Return the keys and values of the source in every layer, computed once for all steps."""
        return tuple(cast("DecoderLayer", layer).cross_attention.remember(memory) for layer in self.layers)

    def forward(
        self,
        tokens: Int[Tensor, "batch n"],
        position: int,
        written: tuple[KeyValue, ...],
        source: tuple[KeyValue, ...],
        visible: Visible,
    ) -> tuple[Hidden, tuple[KeyValue, ...]]:
        """Decode tokens from `position` on; `written` holds the cached keys and values of earlier tokens, if any."""
        x = self.embedding(tokens, position)
        now: list[KeyValue] = []
        for i, layer in enumerate(self.layers):
            x, seen = layer(x, written[i] if written else None, source[i], visible)
            now.append(seen)
        return self.norm(x), tuple(now)


class Transformer(Seq2Seq[TransformerMemory, TransformerState]):
    """The encoder-decoder of Figure 1."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = config.target_vocabulary
        self.max_target = config.max_positions
        source = token_table(config.source_vocabulary, config.d_model)
        target = source if config.tie == "all" else token_table(config.target_vocabulary, config.d_model)
        output = token_table(config.target_vocabulary, config.d_model) if config.tie == "none" else target
        self.encoder = TransformerEncoder(config, source)
        self.decoder = TransformerDecoder(config, target)
        self.projection = Projection(output, config.output_bias)
        xavier(self)

    @property
    def parts(self) -> Sequence[nn.Module]:
        """The modules to shard: the encoder layers and the feed-forward layers of the decoder.

        The decoder's attention is not sharded, as its keys and values are computed outside `forward`, by `remember`.
        """
        return [*self.encoder.layers, *(cast("DecoderLayer", layer).feed_forward for layer in self.decoder.layers)]

    @property
    def layers(self) -> Sequence[nn.Module]:
        return [*self.encoder.layers, *self.decoder.layers]

    def encode(self, source: Source) -> TransformerMemory:
        visible = mask.padding(source, PAD)
        return TransformerMemory(self.encoder(source, visible), visible)

    def start(self, memory: TransformerMemory) -> TransformerState:
        source = self.decoder.remember(memory.hidden)
        owner = torch.arange(memory.hidden.shape[0], device=memory.hidden.device)
        return TransformerState(0, (), source, memory.visible, owner)

    def step(self, tokens: Int[Tensor, " rows"], state: TransformerState) -> tuple[Logits, TransformerState]:
        hidden, written = self.decoder(tokens[:, None], state.position, state.written, state.source, state.visible)
        logits: Tensor = self.projection(hidden.squeeze(1))
        return logits, TransformerState(state.position + 1, written, state.source, state.visible, state.owner)

    def hidden(
        self, memory: TransformerMemory, target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        hidden, _ = self.decoder(target, 0, (), self.decoder.remember(memory.hidden), memory.visible)
        assert isinstance(hidden, Tensor)
        return hidden


def _multihead(config: TransformerConfig, rotary: bool = False) -> MultiHead:
    return MultiHead(
        config.d_model,
        config.num_heads,
        config.d_k,
        config.d_v,
        bias=config.attention_bias,
        rotary=rotary,
        dropout=config.attention_dropout,
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation_dropout, config.activation)


def _residual(config: TransformerConfig) -> Residual:
    return Residual(config.d_model, config.dropout, config.norm, config.norm_epsilon)


def _embedding(config: TransformerConfig, tokens: nn.Embedding) -> Embedding:
    positions = Positions(config.positions, config.max_positions, config.d_model)
    return Embedding(tokens, positions, config.dropout)


def _final_norm(config: TransformerConfig) -> nn.Module:
    """Return the norm at the end of a stack: LayerNorm for pre-norm, the identity for post-norm."""
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon) if config.norm == "pre" else nn.Identity()
