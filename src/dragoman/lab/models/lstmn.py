"""The LSTMN of Cheng et al. (2016): an LSTM with a tape of all its states, read by attention at every step.

An LSTM has one memory cell c_t-1. The LSTMN keeps the tapes H = (h_1, ..., h_t-1) and C = (c_1, ..., c_t-1), and reads
from both (section 3.2):

    a_i = v . tanh(W_h h_i + W_x x_t + W_h~ h~_t-1),   s = softmax(a)           (4), (5)
    [h~_t; c~_t] = sum of s_i [h_i; c_i]                                        (6)
    [i; f; o; c^] = [sigmoid; sigmoid; sigmoid; tanh] W [h~_t; x_t]             (7)
    c_t = f * c~_t + i * c^,   h_t = o * tanh(c_t)                              (8), (9)

In an encoder-decoder (section 4) the decoder also reads the encoder's tapes Y and A, by the same kind of score:

    shallow fusion: x_t becomes [x_t; y~_t], where y~_t is the read part of Y, as in Bahdanau et al. (2015)
    deep fusion:    c_t = r * a~_t + f * c~_t + i * c^,   r = sigmoid(W_r [y~_t; x_t])
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.attention.score import Additive
from dragoman.layers.embedding import Projection, token_table
from dragoman.models.seq2seq import Logits, Seq2Seq, Source, State
from dragoman.text.vocab import PAD

Fusion = Literal["shallow", "deep"]
Vector = Float[Tensor, "rows d_model"]


@dataclass(frozen=True)
class Tape(State):
    """The states [h_i; c_i] of all steps so far, the keys prepared from h_i, and the last vector read."""

    states: Float[Tensor, "rows n d_both"]
    keys: Float[Tensor, "rows n d_model"]
    read: Vector
    """h~ of the last step."""

    @staticmethod
    def empty(like: Float[Tensor, "rows d_input"], d_model: int) -> "Tape":
        """Return a tape without states."""
        rows = len(like)
        return Tape(
            like.new_zeros(rows, 0, 2 * d_model), like.new_zeros(rows, 0, d_model), like.new_zeros(rows, d_model)
        )

    def select(self, rows: Int[Tensor, " rows"]) -> "Tape":
        return Tape(self.states[rows], self.keys[rows], self.read[rows])

    @property
    def hidden(self) -> Float[Tensor, "rows n d_model"]:
        """The hidden tape H."""
        return self.states.chunk(2, dim=-1)[0]


class TapeReader(nn.Module):
    """Attention to a tape: equations (4) to (6). The query is [x_t; h~_t-1], so that W_x and W_h~ are one matrix."""

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.attend = Attend(Additive(d_input + d_model, d_model, d_model))

    def forward(
        self, x: Float[Tensor, "rows d_input"], read: Vector, tape: Tape, visible: Bool[Tensor, "rows 1 1 n"] | None
    ) -> tuple[Vector, Vector]:
        """Return the weighted sums of the hidden and of the memory tape; zeros if the tape is empty."""
        query = torch.cat([x, read], dim=-1)[:, None, None]
        both = self.attend(query, tape.keys[:, None], tape.states[:, None], visible)[:, 0, 0]
        hidden, memory = both.chunk(2, dim=-1)
        return hidden, memory


class LSTMN(nn.Module):
    """One layer: a step appends a state to the tape."""

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.self_attention = TapeReader(d_input, d_model)
        self.gates = nn.Linear(d_model + d_input, 4 * d_model)  # W of equation (7)

    def step(self, x: Float[Tensor, "rows d_input"], tape: Tape, added: Vector | None = None) -> Tape:
        """Return the tape with the state of this step; `added` is a term of c_t, for deep fusion."""
        hidden, memory = self.self_attention(x, tape.read, tape, None)
        i, f, o, candidate = self.gates(torch.cat([hidden, x], dim=-1)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(candidate)  # (8)
        if added is not None:
            c = c + added
        h = torch.sigmoid(o) * torch.tanh(c)  # (9)
        key = self.self_attention.attend.score.prepare(h)
        state = torch.cat([h, c], dim=-1)
        return Tape(torch.cat([tape.states, state[:, None]], 1), torch.cat([tape.keys, key[:, None]], 1), hidden)

    def forward(self, x: Float[Tensor, "rows n d_input"]) -> Tape:
        """Return the tape after all inputs."""
        tape = Tape.empty(x[:, 0], self.d_model)
        for column in x.unbind(1):
            tape = self.step(column, tape)
        return tape


@dataclass(frozen=True)
class FusionState(State):
    """The state of the decoder: the source's tape with keys for the decoder, its mask, and the target's tape."""

    source: Tape
    visible: Bool[Tensor, "rows 1 1 source"]
    target: Tape

    def select(self, rows: Int[Tensor, " rows"]) -> "FusionState":
        return FusionState(self.source.select(rows), self.visible[rows], self.target.select(rows))


class LSTMNTranslator(Seq2Seq[FusionState, FusionState]):
    """An encoder-decoder of two LSTMNs with shallow or deep attention fusion; the decoder begins with an empty tape."""

    def __init__(self, vocabulary: int, d_model: int, fusion: Fusion) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.fusion = fusion
        self.source = nn.Embedding(vocabulary, d_model)
        self.target = nn.Embedding(vocabulary, d_model)
        self.encoder = LSTMN(d_model, d_model)
        self.cross_attention = TapeReader(d_model, d_model)
        self.decoder = LSTMN(2 * d_model if fusion == "shallow" else d_model, d_model)
        self.gate = nn.Linear(2 * d_model, d_model) if fusion == "deep" else None  # W_r
        self.projection = Projection(token_table(vocabulary, d_model))

    def encode(self, source: Source) -> FusionState:
        tape = self.encoder(self.source(source))
        keys = self.cross_attention.attend.score.prepare(tape.hidden)
        read = torch.zeros_like(tape.read)  # nothing of the source was read yet
        visible = mask.padding(source, PAD)  # padding stands at the end, where no token before it reads it
        return FusionState(Tape(tape.states, keys, read), visible, Tape.empty(read, self.encoder.d_model))

    def start(self, memory: FusionState) -> FusionState:
        return memory

    def step(self, tokens: Int[Tensor, " rows"], state: FusionState) -> tuple[Logits, FusionState]:
        state = self._next(self.target(tokens), state)
        logits: Tensor = self.projection(state.target.hidden[:, -1])
        return logits, state

    def hidden(self, memory: FusionState, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target d_model"]:
        state = memory
        for embedded in self.target(target).unbind(1):
            state = self._next(embedded, state)
        return state.target.hidden

    def _next(self, x: Vector, state: FusionState) -> FusionState:
        source = state.source
        hidden, memory = self.cross_attention(x, source.read, source, state.visible)
        if self.gate is None:
            target = self.decoder.step(torch.cat([x, hidden], dim=-1), state.target)
        else:
            r = torch.sigmoid(self.gate(torch.cat([hidden, x], dim=-1)))
            target = self.decoder.step(x, state.target, added=r * memory)
        return FusionState(Tape(source.states, source.keys, hidden), state.visible, target)
