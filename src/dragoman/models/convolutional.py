"""ConvS2S: Convolutional Sequence to Sequence Learning (Gehring et al., 2017).

Both stacks are blocks of a convolution over k positions and a gated linear unit. A decoder block sees only earlier
positions, and each one attends to the source: the keys are the encoder's output, the values that output plus the
embedding. Sums of two vectors are scaled by sqrt(1/2), so that their variance stays.

Where k positions are one vector, a convolution is a linear layer. Step-by-step decoding keeps the last k - 1 inputs of
each block: the same code computes one step and all steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.attention.multihead import KeyValue
from dragoman.attention.score import Dot
from dragoman.layers.dropout import Dropout
from dragoman.layers.embedding import Embedding, Projection, token_table
from dragoman.layers.positions import Positions
from dragoman.models.config import ConvolutionalConfig
from dragoman.models.seq2seq import Logits, Seq2Seq, Source, State
from dragoman.text.vocab import PAD

HALF: Final = math.sqrt(0.5)
"""The factor of a sum of two vectors of equal variance."""

Hidden = Float[Tensor, "batch n d_model"]
Embedded = Float[Tensor, "batch n d_embedding"]
Visible = Bool[Tensor, "batch 1 1 source"]
Window = Float[Tensor, "batch k_1 d_model"]
"""The k - 1 inputs of a decoder block before the current ones; zeros before the first position."""


@dataclass(frozen=True)
class ConvolutionalMemory:
    """The keys and values of the source, which all decoder blocks share, and the mask that hides padding."""

    source: KeyValue
    visible: Visible


@dataclass(frozen=True)
class ConvolutionalState(State):
    """The last inputs of each decoder block, and the source."""

    position: int
    windows: tuple[Window, ...]
    source: KeyValue
    visible: Visible
    owner: Int[Tensor, " rows"]
    """The source index of each row."""

    def select(self, rows: Int[Tensor, " rows"]) -> "ConvolutionalState":
        windows = tuple(window.index_select(0, rows) for window in self.windows)
        owner = self.owner.index_select(0, rows)
        source, visible = self.source, self.visible
        if not torch.equal(owner, self.owner):  # else beams moved within their sentences: the source stays
            source, visible = source.select(rows), visible.index_select(0, rows)
        return ConvolutionalState(self.position, windows, source, visible, owner)


class NormedLinear(nn.Module):
    """A linear layer with weight normalisation (Salimans and Kingma, 2016): row i of W is g_i v_i / ||v_i||."""

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(d_output, d_input))
        self.norm = nn.Parameter(torch.empty(d_output))
        self.bias = nn.Parameter(torch.zeros(d_output))

    @property
    def weight(self) -> Float[Tensor, "d_output d_input"]:
        weight: Tensor = self.direction * (self.norm / torch.linalg.vector_norm(self.direction, dim=1))[:, None]
        return weight

    def forward(self, x: Float[Tensor, "*shape d_input"]) -> Float[Tensor, "*shape d_output"]:
        return F.linear(x, self.weight, self.bias)


class Convolution(nn.Module):
    """Dropout, a convolution over k positions to twice the width, and a gated linear unit: a * sigmoid(b)."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.width = config.kernel_size
        self.dropout = Dropout(config.dropout)
        # The unit keeps a quarter of its input's variance.
        self.linear = _linear(config, config.kernel_size * config.d_model, 2 * config.d_model, 4.0 * _kept(config))

    def forward(self, x: Float[Tensor, "batch m d_model"]) -> Hidden:
        """Return the n = m - k + 1 outputs of the m inputs."""
        spans = self.dropout(x).unfold(1, self.width, 1).transpose(2, 3).flatten(2)  # [batch, n, k * d_model]
        return F.glu(self.linear(spans))


class EncoderBlock(nn.Module):
    """An encoder block: a convolution over (k - 1) / 2 positions on either side, and the residual sum."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.reach = config.kernel_size // 2
        self.convolution = Convolution(config)

    def forward(self, x: Hidden, is_token: Bool[Tensor, "batch n 1"]) -> Hidden:
        seen = F.pad(x * is_token, (0, 0, self.reach, self.reach))  # padding is zero, as what is beyond the ends
        total: Tensor = (x + self.convolution(seen)) * HALF
        return total


class MultiStepAttention(nn.Module):
    """The attention of a decoder block: d = W h + b + embedding of the last token, weights softmax(d . z).

    The values of the source have a factor of sqrt(m) for m tokens (see `ConvolutionalEncoder`), which makes up for the
    variance that an average of m vectors loses.
    """

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.query = _linear(config, config.d_model, config.d_embedding)
        self.output = _linear(config, config.d_embedding, config.d_model)
        self.attend = Attend(Dot())

    def forward(self, hidden: Hidden, embedded: Embedded, source: KeyValue, visible: Visible) -> Hidden:
        query = (self.query(hidden) + embedded) * HALF
        context = self.attend(query[:, None], source.key, source.value, visible)  # one head
        attended: Tensor = (hidden + self.output(context.squeeze(1))) * HALF
        return attended


class DecoderBlock(nn.Module):
    """A decoder block: a convolution over this and the k - 1 positions before, attention, and the residual sum."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.convolution = Convolution(config)
        self.attention = MultiStepAttention(config)

    def forward(
        self, x: Hidden, window: Window, embedded: Embedded, source: KeyValue, visible: Visible
    ) -> tuple[Hidden, Window]:
        """Return the outputs, and the window of the next step."""
        seen = torch.cat([window, x], dim=1)
        hidden = self.attention(self.convolution(seen), embedded, source, visible)
        return (x + hidden) * HALF, seen[:, x.shape[1] :]


class ConvolutionalEncoder(nn.Module):
    """The source embedding, the encoder blocks, and linear maps between the two widths."""

    def __init__(self, config: ConvolutionalConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = _embedding(config, tokens)
        self.enter = _linear(config, config.d_embedding, config.d_model, _kept(config))
        self.layers = nn.ModuleList(EncoderBlock(config) for _ in range(config.num_encoder_layers))
        self.leave = _linear(config, config.d_model, config.d_embedding)
        self.num_readers = config.num_decoder_layers

    def forward(self, source: Source, visible: Visible) -> KeyValue:
        embedded = self.embedding(source)
        is_token = visible[:, 0, 0, :, None]
        x = self.enter(embedded)
        for layer in self.layers:
            x = layer(x, is_token)
        key: Tensor = self.leave(x)
        if key.requires_grad:  # section 3.5: each attention of the decoder sends back a gradient
            key.register_hook(lambda gradient: gradient / self.num_readers)  # type: ignore[no-untyped-call]
        length = visible.sum(dim=-1, keepdim=True).to(embedded.dtype)
        value = (key + embedded)[:, None] * (length.sqrt() * HALF)
        return KeyValue(key[:, None], value)


class ConvolutionalDecoder(nn.Module):
    """The target embedding, the decoder blocks, and linear maps between the two widths."""

    def __init__(self, config: ConvolutionalConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.d_window = (config.kernel_size - 1, config.d_model)
        self.embedding = _embedding(config, tokens)
        self.enter = _linear(config, config.d_embedding, config.d_model, _kept(config))
        self.layers = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_decoder_layers))
        self.leave = _linear(config, config.d_model, config.d_embedding)
        self.dropout = Dropout(config.dropout)

    def begin(self, memory: ConvolutionalMemory) -> ConvolutionalState:
        """Return the state before the first step."""
        key = memory.source.key
        window = key.new_zeros(len(key), *self.d_window)
        owner = torch.arange(len(key), device=key.device)
        return ConvolutionalState(0, (window,) * len(self.layers), memory.source, memory.visible, owner)

    def forward(self, tokens: Int[Tensor, "batch n"], state: ConvolutionalState) -> tuple[Embedded, ConvolutionalState]:
        """Decode tokens from the state's position on; return the input of the output projection, and the new state."""
        embedded = self.embedding(tokens, state.position)
        x, windows = self.enter(embedded), []
        for layer, window in zip(self.layers, state.windows, strict=True):
            x, window = layer(x, window, embedded, state.source, state.visible)
            windows.append(window)
        position = state.position + tokens.shape[1]
        after = ConvolutionalState(position, tuple(windows), state.source, state.visible, state.owner)
        return self.dropout(self.leave(x)), after


class Convolutional(Seq2Seq[ConvolutionalMemory, ConvolutionalState]):
    """The encoder-decoder of Figure 1 of the ConvS2S paper."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = config.target_vocabulary
        self.max_target = config.max_positions
        source = token_table(config.source_vocabulary, config.d_embedding)
        target = source if config.tie == "all" else token_table(config.target_vocabulary, config.d_embedding)
        output = token_table(config.target_vocabulary, config.d_embedding) if config.tie == "none" else target
        for table in (source, target, output):
            nn.init.normal_(table.weight, std=0.1)
        self.encoder = ConvolutionalEncoder(config, source)
        self.decoder = ConvolutionalDecoder(config, target)
        self.projection = Projection(output, bias=True)

    @property
    def parts(self) -> Sequence[nn.Module]:
        return self.layers

    @property
    def layers(self) -> Sequence[nn.Module]:
        return [*self.encoder.layers, *self.decoder.layers]

    def encode(self, source: Source) -> ConvolutionalMemory:
        visible = mask.padding(source, PAD)
        return ConvolutionalMemory(self.encoder(source, visible), visible)

    def start(self, memory: ConvolutionalMemory) -> ConvolutionalState:
        return self.decoder.begin(memory)

    def step(self, tokens: Int[Tensor, " rows"], state: ConvolutionalState) -> tuple[Logits, ConvolutionalState]:
        hidden, state = self.decoder(tokens[:, None], state)
        logits: Tensor = self.projection(hidden.squeeze(1))
        return logits, state

    def hidden(
        self, memory: ConvolutionalMemory, target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_embedding"]:
        hidden, _ = self.decoder(target, self.decoder.begin(memory))
        assert isinstance(hidden, Tensor)
        return hidden


def _linear(config: ConvolutionalConfig, d_input: int, d_output: int, gain: float = 1.0) -> nn.Linear | NormedLinear:
    """Return a linear layer, initialised as in section 3.5: normal with variance gain / d_input, and zero biases."""
    linear = (NormedLinear if config.weight_norm else nn.Linear)(d_input, d_output)
    nn.init.zeros_(linear.bias)
    weight = linear.direction if isinstance(linear, NormedLinear) else linear.weight
    nn.init.normal_(weight, std=math.sqrt(gain / d_input))
    if isinstance(linear, NormedLinear):
        linear.norm.data.copy_(torch.linalg.vector_norm(weight, dim=1))
    return linear


def _kept(config: ConvolutionalConfig) -> float:
    """Return the share that dropout keeps: its output has the variance of its input divided by it."""
    return 1.0 - config.dropout


def _embedding(config: ConvolutionalConfig, tokens: nn.Embedding) -> Embedding:
    positions = Positions("learned", config.max_positions, config.d_embedding)
    nn.init.normal_(positions.table, std=0.1)
    return Embedding(tokens, positions, config.dropout, scale=1.0)
