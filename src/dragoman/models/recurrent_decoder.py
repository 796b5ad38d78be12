"""Four recurrent decoders, which differ in how the source enters the stack of cells.

    Sutskever  s_t = f(s_t-1, y_t-1)                       the source is only the initial state
    Cho        s_t = f(s_t-1, y_t-1, c)                    one vector c for the whole source
    Bahdanau   c_t = a(s_t-1, source), s_t = f(s_t-1, y_t-1, c_t)      attend, then step
    Luong      s_t = f(s_t-1, y_t-1, h~_t-1), c_t = a(s_t, source)     step, then attend

A decoder computes a step for all rows at once and returns features. The `readout` of the decoder, which is not
recurrent and so is computed for all steps together, turns features into the input of the output projection.
"""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent_attention import Predictive, PreparedSource, RecurrentAttention, Visible, monotonic
from dragoman.models.seq2seq import State

Layers = tuple[tuple[Float[Tensor, "rows d_model"], ...], ...]
"""The state of each layer: the output and, in an LSTM, the memory cell."""

Embedded = Float[Tensor, "rows d_embedding"]
Features = Float[Tensor, "rows d_features"]


@dataclass(frozen=True)
class RecurrentState(State):
    """The state of a recurrent decoder: cell states, extra input of the next step, and source."""

    position: int
    layers: Layers
    fed: Float[Tensor, "rows d_fed"]
    """The extra input of the next step: Cho's source vector or Luong's last attentional vector; else of size 0."""
    seen: PreparedSource | None
    owner: Int[Tensor, " rows"]
    """The source index of each row."""

    def select(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        layers = tuple(tuple(part.index_select(0, rows) for part in layer) for layer in self.layers)
        owner = self.owner.index_select(0, rows)
        seen = self.seen
        if seen is not None and not torch.equal(owner, self.owner):  # else beams moved within their sentences
            seen = seen.select(rows)
        return RecurrentState(self.position, layers, self.fed.index_select(0, rows), seen, owner)

    def after(self, layers: Layers, fed: Float[Tensor, "rows d_fed"]) -> "RecurrentState":
        """Return the state of the next step, with these cell states and this extra input."""
        return RecurrentState(self.position + 1, layers, fed, self.seen, self.owner)


@dataclass(frozen=True)
class EncodedSource:
    """The output of the encoder: a vector per position, and the final state of each layer."""

    hidden: Float[Tensor, "rows source d_model"]
    visible: Visible
    final: Layers

    def zeros(self, width: int) -> Float[Tensor, "rows width"]:
        """Return a zero tensor [sources, width]."""
        return self.hidden.new_zeros(self.hidden.shape[0], width)

    def begin(
        self, layers: Layers, fed: Float[Tensor, "rows d_fed"] | None = None, seen: PreparedSource | None = None
    ) -> RecurrentState:
        """Return the decoder state before the first step."""
        owner = torch.arange(self.hidden.shape[0], device=self.hidden.device)
        return RecurrentState(0, layers, self.zeros(0) if fed is None else fed, seen, owner)


class Cells(nn.Module):
    """A stack of GRU, LSTM or tanh cells.

    The GRU is torch's: the reset gate applies after the recurrent product, r * (U h). Cho and Bahdanau use U (r * h).
    """

    def __init__(self, config: RecurrentConfig, d_input: int) -> None:
        super().__init__()
        cell = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}[config.cell]
        widths = [d_input] + [config.d_model] * (config.num_layers - 1)
        self.layers = nn.ModuleList(cell(width, config.d_model) for width in widths)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "rows d_input"], before: Layers) -> Layers:
        now: list[tuple[Tensor, ...]] = []
        for cell, held in zip(self.layers, before, strict=True):
            if now:
                x = self.dropout(now[-1][0])
            now.append(cell(x, held) if isinstance(cell, nn.LSTMCell) else (cell(x, *held),))
        return tuple(now)


class FirstState(nn.Module):
    """The initial cell states: tanh(W summary), with a separate W for each layer and for an LSTM's memory cell."""

    def __init__(self, config: RecurrentConfig, d_summary: int) -> None:
        super().__init__()
        self.parts = config.num_held
        self.layers = nn.ModuleList(nn.Linear(d_summary, self.parts * config.d_model) for _ in range(config.num_layers))

    def forward(self, summary: Float[Tensor, "rows d_summary"]) -> Layers:
        return tuple(torch.tanh(layer(summary)).chunk(self.parts, dim=-1) for layer in self.layers)


class Maxout(nn.Module):
    """A linear layer and the maximum over pairs of its outputs, as in the deep output of Cho and of Bahdanau."""

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.pairs = nn.Linear(d_input, 2 * d_output)

    def forward(self, x: Float[Tensor, "*shape d_input"]) -> Float[Tensor, "*shape d_output"]:
        pairs: Tensor = self.pairs(x)
        return pairs.reshape(*pairs.shape[:-1], -1, 2).amax(dim=-1)


class Sutskever(nn.Module):
    """Sequence to Sequence Learning with Neural Networks (2014): the decoder starts in the encoder's final state."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.cells = Cells(config, config.d_embedding)
        self.readout = _straight_readout(config)

    def remember(self, encoded: EncodedSource) -> RecurrentState:
        return encoded.begin(encoded.final)

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        layers = self.cells(embedded, state.layers)
        return top(layers), state.after(layers, state.fed)


class Cho(nn.Module):
    """Learning Phrase Representations using RNN Encoder-Decoder (2014): c = tanh(V h_N) enters every step."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.summary = nn.Linear(config.d_model, config.d_model)
        self.first = FirstState(config, config.d_model)
        self.cells = Cells(config, config.d_embedding + config.d_model)
        self.readout = Maxout(2 * config.d_model + config.d_embedding, config.d_embedding)  # over s, y and c

    def remember(self, encoded: EncodedSource) -> RecurrentState:
        summary = torch.tanh(self.summary(top(encoded.final)))
        return encoded.begin(self.first(summary), summary)

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        x = torch.cat([embedded, state.fed], dim=-1)
        layers = self.cells(x, state.layers)
        return torch.cat([top(layers), x], dim=-1), state.after(layers, state.fed)


class Bahdanau(nn.Module):
    """Neural Machine Translation by Jointly Learning to Align and Translate (2015): attend, then step.

    The deep output takes s_i, as in p(y_i | s_i, y_i-1, c_i) in appendix A.2.2 of the paper; the next line there prints
    s_i-1. The initial state is computed from the last state of the backward encoder, at the first source word, or of
    the forward encoder if the encoder is unidirectional.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.d_summary = config.d_model // 2 if config.bidirectional else config.d_model
        self.first = FirstState(config, self.d_summary)
        self.attention = RecurrentAttention(config)
        self.cells = Cells(config, config.d_embedding + config.d_model)
        self.readout = Maxout(2 * config.d_model + config.d_embedding, config.d_embedding)  # over s, y and c

    def remember(self, encoded: EncodedSource) -> RecurrentState:
        layers = self.first(top(encoded.final)[:, -self.d_summary :])
        return encoded.begin(layers, seen=self.attention.remember(encoded.hidden, encoded.visible))

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        assert state.seen is not None
        context = self.attention(top(state.layers), state.seen)
        x = torch.cat([embedded, context], dim=-1)
        layers = self.cells(x, state.layers)
        return torch.cat([top(layers), x], dim=-1), state.after(layers, state.fed)


class Luong(nn.Module):
    """Effective Approaches to Attention-based Neural Machine Translation (2015): step, then attend.

    The attentional vector h~ = tanh(W_c [c; h]) makes the prediction and, with input feeding, enters the next step.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.d_fed = config.d_model if config.input_feeding else 0
        self.locality = config.locality
        self.window = config.window
        self.cells = Cells(config, config.d_embedding + self.d_fed)
        self.attention = RecurrentAttention(config)
        self.centre = Predictive(config.d_model, config.window) if config.locality == "local-p" else None
        self.combine = nn.Linear(2 * config.d_model, config.d_model, bias=False)
        self.readout = _straight_readout(config)

    def remember(self, encoded: EncodedSource) -> RecurrentState:
        seen = self.attention.remember(encoded.hidden, encoded.visible)
        return encoded.begin(encoded.final, encoded.zeros(self.d_fed), seen)

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        assert state.seen is not None
        layers = self.cells(torch.cat([embedded, state.fed], dim=-1), state.layers)
        hidden, seen = top(layers), state.seen
        if self.locality == "local-m":
            seen = monotonic(seen, state.position, self.window)
        elif self.centre is not None:
            seen = self.centre(hidden, seen)
        attentional = torch.tanh(self.combine(torch.cat([self.attention(hidden, seen), hidden], dim=-1)))
        return attentional, state.after(layers, attentional[:, : self.d_fed])


RecurrentDecoder = Sutskever | Cho | Bahdanau | Luong
_DECODERS: Final[dict[str, type[RecurrentDecoder]]] = {
    "first": Sutskever,
    "every": Cho,
    "bahdanau": Bahdanau,
    "luong": Luong,
}


def build_decoder(config: RecurrentConfig) -> RecurrentDecoder:
    """Build the decoder for `config.context`."""
    return _DECODERS[config.context](config)


def top(layers: Layers) -> Float[Tensor, "rows d_model"]:
    """Return the output of the last layer of a stack."""
    return layers[-1][0]


def _straight_readout(config: RecurrentConfig) -> nn.Module:
    """Return the identity, or a projection to the embedding dimension if tied embeddings need it."""
    if config.tie == "none" or config.d_model == config.d_embedding:
        return nn.Identity()
    return nn.Linear(config.d_model, config.d_embedding, bias=False)
