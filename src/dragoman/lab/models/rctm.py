"""The Recurrent Continuous Translation Model I of Kalchbrenner and Blunsom (2013): convolutions read, an RNN writes.

The convolutional sentence model (CSM) turns a source e of any length into one vector, which is added at every step:

    s = S csm(e)
    h_1 = f(I v(y_1) + s),   h_i+1 = f(R h_i + I v(y_i+1) + s),   o_i+1 = O h_i

f is tanh here. Between source and target there is no attention, so a tap has nothing to record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.layers.embedding import Projection, token_table
from dragoman.models.seq2seq import Logits, Seq2Seq, Source, State
from dragoman.text.vocab import PAD


class SentenceModel(nn.Module):
    """The convolutional sentence model: convolutions of width 2, 3, 4, ... until one column is left.

    Each row of the sentence matrix, that is each component of the embedding, has its own kernels and is convolved
    along the sentence without padding, so K^i makes i - 1 columns fewer. When at most i columns are left, L as wide as
    the rest makes them one. So the widths grow with the square root of the length, and sentences of one length share
    kernels with those of others.
    """

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        names = sorted({name for length in range(1, longest + 1) for name, _ in kernels(length)})
        self.kernels = nn.ParameterDict({name: torch.empty(d_model, 1, int(name[1:])) for name in names})
        for name, kernel in self.kernels.items():
            nn.init.normal_(kernel, std=int(name[1:]) ** -0.5)

    def forward(self, columns: Float[Tensor, "rows d_model n"]) -> Float[Tensor, "rows d_model"]:
        """Return the vectors of sentences of one length."""
        for name, _ in kernels(columns.shape[-1]):
            columns = torch.tanh(F.conv1d(columns, self.kernels[name], groups=columns.shape[1]))
        return columns[..., 0]


def kernels(length: int) -> Iterator[tuple[str, int]]:
    """Yield the kernels for a sentence of this length by name, such as K3 or L2, with the columns that each leaves."""
    for width in count(2):
        if length == 1:
            return
        name, length = (f"K{width}", length - width + 1) if length > width else (f"L{length}", 1)
        yield name, length


@dataclass(frozen=True)
class SentenceState(State):
    """The state of the decoder: its hidden layer, and the vector of the source, which is added at every step."""

    hidden: Float[Tensor, "rows d_model"]
    sentence: Float[Tensor, "rows d_model"]

    def select(self, rows: Int[Tensor, " rows"]) -> "SentenceState":
        return SentenceState(self.hidden[rows], self.sentence[rows])


class RCTM(Seq2Seq[SentenceState, SentenceState]):
    """RCTM I: the sentence model and a recurrent language model of the target.

    With `every_step` False the source vector enters at the first step alone.
    """

    def __init__(self, vocabulary: int, d_model: int, longest: int, every_step: bool = True) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.every_step = every_step
        self.source = nn.Embedding(vocabulary, d_model)
        self.csm = SentenceModel(d_model, longest)
        self.sentence = nn.Linear(d_model, d_model, bias=False)  # S
        self.target = nn.Embedding(vocabulary, d_model)  # I v(y), whose product is a table as well
        self.recurrent = nn.Linear(d_model, d_model, bias=False)  # R
        nn.init.orthogonal_(self.recurrent.weight)
        self.projection = Projection(token_table(vocabulary, d_model))  # O

    def encode(self, source: Source) -> SentenceState:
        lengths = (source != PAD).sum(dim=1)
        if int(lengths.max()) > self.csm.longest:
            raise ValueError(f"a source has {int(lengths.max())} tokens: give at most {self.csm.longest}")
        embedded = self.source(source).transpose(1, 2)
        vectors = embedded.new_zeros(embedded.shape[:2])
        for length in sorted(set(lengths.tolist())):  # the kernels depend on the length
            rows = (lengths == length).nonzero().squeeze(1)
            vectors = vectors.index_copy(0, rows, self.csm(embedded[rows, :, :length]))
        return SentenceState(torch.zeros_like(vectors), self.sentence(vectors))

    def start(self, memory: SentenceState) -> SentenceState:
        return memory

    def step(self, tokens: Int[Tensor, " rows"], state: SentenceState) -> tuple[Logits, SentenceState]:
        state = self._next(self.target(tokens), state)
        logits: Tensor = self.projection(state.hidden)
        return logits, state

    def hidden(
        self, memory: SentenceState, target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        state, steps = memory, []
        for embedded in self.target(target).unbind(1):
            state = self._next(embedded, state)
            steps.append(state.hidden)
        return torch.stack(steps, dim=1)

    def _next(self, embedded: Float[Tensor, "rows d_model"], state: SentenceState) -> SentenceState:
        hidden = torch.tanh(self.recurrent(state.hidden) + embedded + state.sentence)
        return SentenceState(hidden, state.sentence if self.every_step else torch.zeros_like(state.sentence))
