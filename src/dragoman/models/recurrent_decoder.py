"""Four decoders on the road to attention: a stack of cells each, and what of the source enters it when.

    Sutskever  s_t = f(s_t-1, y_t-1)                       the source is the first state, and nothing else
    Cho        s_t = f(s_t-1, y_t-1, c)                    one vector c for the whole source
    Bahdanau   c_t = a(s_t-1, source), s_t = f(s_t-1, y_t-1, c_t)      look, then step
    Luong      s_t = f(s_t-1, y_t-1, h~_t-1), c_t = a(s_t, source)     step, then look

A decoder does its step on all rows at once, and gives the features from which its `readout`, which does not recur and
so can be computed for all steps together, makes the vector that is compared with the vocabulary.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent_attention import Attention, Neighbourhood, Predictive, Seen, Visible, monotonic
from dragoman.models.seq2seq import State

Layers = tuple[tuple[Float[Tensor, "rows d_model"], ...], ...]
"""What each layer of a stack holds: its output and, in an LSTM, its memory cell."""

Embedded = Float[Tensor, "rows d_embedding"]
Features = Float[Tensor, "rows d_features"]


@dataclass(frozen=True)
class Reading:
    """What the encoder made of a source: a vector for each position, and what each layer held at the end."""

    hidden: Float[Tensor, "rows source d_model"]
    visible: Visible
    final: Layers


@dataclass(frozen=True)
class Memory:
    """What a decoder takes with it of a source."""

    layers: Layers
    """Its cells before the first step."""
    fed: Float[Tensor, "rows d_fed"]
    """What enters the first step beside the token."""
    seen: Seen | None
    """What it can look at, if it attends."""


@dataclass(frozen=True)
class RecurrentState(State):
    """The cells after some steps, what enters the next one beside the token, and the source to look at."""

    position: int
    layers: Layers
    fed: Float[Tensor, "rows d_fed"]
    """Cho's vector of the source, Luong's last attentional vector; otherwise no columns."""
    seen: Seen | None
    owner: Int[Tensor, " rows"]
    """Which source each row belongs to."""

    def select(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        layers = tuple(tuple(part.index_select(0, rows) for part in layer) for layer in self.layers)
        owner = self.owner.index_select(0, rows)
        seen = self.seen
        if seen is not None and not torch.equal(owner, self.owner):  # else beams moved within their sentences
            seen = seen.select(rows)
        return RecurrentState(self.position, layers, self.fed.index_select(0, rows), seen, owner)

    def after(self, layers: Layers, fed: Float[Tensor, "rows d_fed"]) -> "RecurrentState":
        """The state one step later."""
        return RecurrentState(self.position + 1, layers, fed, self.seen, self.owner)


class Cells(nn.Module):
    """GRU or LSTM cells on top of each other, each reading the output of the one below.

    They are torch's. Its GRU resets after the recurrent product, r * (U h), where Cho and Bahdanau write U (r * h).
    """

    def __init__(self, config: RecurrentConfig, d_input: int) -> None:
        super().__init__()
        cell = nn.GRUCell if config.cell == "gru" else nn.LSTMCell
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
    """tanh(W summary): the cells before the first step. Each layer, and an LSTM's memory cell, has its own matrix."""

    def __init__(self, config: RecurrentConfig, d_summary: int) -> None:
        super().__init__()
        self.parts = 1 if config.cell == "gru" else 2
        self.layers = nn.ModuleList(nn.Linear(d_summary, self.parts * config.d_model) for _ in range(config.num_layers))

    def forward(self, summary: Float[Tensor, "rows d_summary"]) -> Layers:
        return tuple(torch.tanh(layer(summary)).chunk(self.parts, dim=-1) for layer in self.layers)


class Maxout(nn.Module):
    """The larger number of each pair of a linear map's outputs: the deep output of Cho and of Bahdanau."""

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.pairs = nn.Linear(d_input, 2 * d_output)

    def forward(self, x: Float[Tensor, "*shape d_input"]) -> Float[Tensor, "*shape d_output"]:
        pairs: Tensor = self.pairs(x)
        return pairs.reshape(*pairs.shape[:-1], -1, 2).amax(dim=-1)


class Sutskever(nn.Module):
    """Sequence to Sequence Learning with Neural Networks (2014): it begins where the encoder ended."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.cells = Cells(config, config.d_embedding)
        self.readout = _straight_readout(config)

    def remember(self, reading: Reading) -> Memory:
        return Memory(reading.final, _nothing(reading), None)

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
        self.readout = _deep_readout(config)

    def remember(self, reading: Reading) -> Memory:
        summary = torch.tanh(self.summary(top(reading.final)))
        return Memory(self.first(summary), summary, None)

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        x = torch.cat([embedded, state.fed], dim=-1)
        layers = self.cells(x, state.layers)
        return torch.cat([top(layers), x], dim=-1), state.after(layers, state.fed)


class Bahdanau(nn.Module):
    """Neural Machine Translation by Jointly Learning to Align and Translate (2015): look, then step.

    The deep output reads s_i, as p(y_i | s_i, y_i-1, c_i) in the paper's appendix A.2.2 says; the line below it there
    prints s_i-1. The first state is made of the backward reading's last one, which stands at the source's first word;
    an encoder that reads forwards only has its own last one to offer.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.d_summary = config.d_model // 2 if config.bidirectional else config.d_model
        self.first = FirstState(config, self.d_summary)
        self.attention = Attention(config)
        self.cells = Cells(config, config.d_embedding + config.d_model)
        self.readout = _deep_readout(config)

    def remember(self, reading: Reading) -> Memory:
        layers = self.first(top(reading.final)[:, -self.d_summary :])
        return Memory(layers, _nothing(reading), self.attention.remember(reading.hidden, reading.visible))

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        assert state.seen is not None
        context = self.attention(top(state.layers), state.seen)
        x = torch.cat([embedded, context], dim=-1)
        layers = self.cells(x, state.layers)
        return torch.cat([top(layers), x], dim=-1), state.after(layers, state.fed)


class Luong(nn.Module):
    """Effective Approaches to Attention-based Neural Machine Translation (2015): step, then look.

    The attentional vector h~ = tanh(W_c [c; h]) makes the prediction and, with input feeding, is part of the next step.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.d_fed = config.d_model if config.input_feeding else 0
        self.locality = config.locality
        self.window = config.window
        self.cells = Cells(config, config.d_embedding + self.d_fed)
        self.attention = Attention(config)
        self.centre = Predictive(config.d_model, config.window) if config.locality == "local-p" else None
        self.combine = nn.Linear(2 * config.d_model, config.d_model, bias=False)
        self.readout = _straight_readout(config)

    def remember(self, reading: Reading) -> Memory:
        fed = top(reading.final).new_zeros(reading.hidden.shape[0], self.d_fed)
        return Memory(reading.final, fed, self.attention.remember(reading.hidden, reading.visible))

    def forward(self, embedded: Embedded, state: RecurrentState) -> tuple[Features, RecurrentState]:
        assert state.seen is not None
        layers = self.cells(torch.cat([embedded, state.fed], dim=-1), state.layers)
        hidden = top(layers)
        context = self.attention(hidden, state.seen, self._near(hidden, state.seen, state.position))
        attentional = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
        return attentional, state.after(layers, attentional[:, : self.d_fed])

    def _near(self, hidden: Tensor, seen: Seen, position: int) -> Neighbourhood | None:
        if self.centre is not None:
            near: Neighbourhood = self.centre(hidden, seen)
            return near
        return monotonic(seen, position, self.window) if self.locality == "local-m" else None


Decoder = Sutskever | Cho | Bahdanau | Luong


def decoder(config: RecurrentConfig) -> Decoder:
    """The decoder that sees the source the way `config.context` says."""
    match config.context:
        case "first":
            return Sutskever(config)
        case "every":
            return Cho(config)
        case "bahdanau":
            return Bahdanau(config)
        case "luong":
            return Luong(config)


def top(layers: Layers) -> Float[Tensor, "rows d_model"]:
    """The output of a stack: that of its last layer."""
    return layers[-1][0]


def _nothing(reading: Reading) -> Float[Tensor, "rows 0"]:
    return reading.hidden.new_zeros(reading.hidden.shape[0], 0)


def _deep_readout(config: RecurrentConfig) -> nn.Module:
    """Maxout over (s, y, c)."""
    return Maxout(config.d_model + config.d_embedding + config.d_model, config.d_embedding)


def _straight_readout(config: RecurrentConfig) -> nn.Module:
    """The features as they are. A tied vocabulary has vectors of d_embedding numbers: another width is mapped to it."""
    if config.tie == "none" or config.d_model == config.d_embedding:
        return nn.Identity()
    return nn.Linear(config.d_model, config.d_embedding, bias=False)
