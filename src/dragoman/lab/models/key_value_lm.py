"""Language models of Daniluk et al. (2017): attention over the last outputs, with one vector or several per word.

The outputs h_t of an LSTM are the memory. Plain attention uses the same h_t as key, as value and to predict the next
word; key-value attention splits it in two, key-value-predict attention in three. The N-gram RNN has no attention: it
concatenates parts of the last N - 1 outputs. Equations (1) to (5) of the paper are those of section 2.1; sections 2.2
to 2.4 change a line each.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.attention.score import Additive

Split = Literal["attention", "key-value", "key-value-predict"]

Tokens = Int[Tensor, "batch n"]
Outputs = Float[Tensor, "batch n k"]


class LanguageModel(nn.Module):
    """An LSTM whose outputs h_t become h*_t by `combine`, and the logits of the next token; base of all variants."""

    def __init__(self, vocabulary: int, d_output: int, d_lstm: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_output)
        self.lstm = nn.LSTM(d_output, d_lstm, batch_first=True)
        self.output = nn.Linear(d_output, vocabulary)  # W* and b of equation (5)

    def combine(self, h: Float[Tensor, "batch n d_lstm"]) -> Float[Tensor, "batch n d_output"]:
        """Return h*_t at all positions; without attention it is h_t."""
        return h

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch n vocabulary"]:
        """Return the logits of the token after each position."""
        logits: Tensor = self.output(self.combine(self.lstm(self.embedding(tokens))[0]))
        return logits

    def losses(self, tokens: Tokens) -> Float[Tensor, "batch n-1"]:
        """Return the negative log-probability of every token but the first."""
        return F.cross_entropy(self(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:], reduction="none")


class AttentionLM(LanguageModel):
    """A language model with attention over the `span` outputs before each position (L in the paper).

    `d_output` is k, the size of each part; the LSTM has k, 2k or 3k units.
    """

    def __init__(self, vocabulary: int, d_output: int, split: Split = "attention", span: int = 15) -> None:
        num_parts = get_args(Split).index(split) + 1
        super().__init__(vocabulary, d_output, num_parts * d_output)
        self.num_parts = num_parts
        self.span = span
        self.attend = Attend(Additive(d_output, d_output, d_output))  # W^h, W^Y and w of equations (1) and (2)
        self.read = nn.Linear(d_output, d_output, bias=False)  # W^r
        self.predict = nn.Linear(d_output, d_output, bias=False)  # W^x

    def parts(self, h: Float[Tensor, "batch n d_lstm"]) -> tuple[Outputs, Outputs, Outputs]:
        """Return the key, the value and the predicting part of each output, which may be one and the same."""
        if self.num_parts == 1:
            return h, h, h
        key, value, *rest = h.chunk(self.num_parts, dim=-1)
        return key, value, rest[0] if rest else value  # section 2.2: the value predicts; section 2.3: a third part

    def combine(self, h: Float[Tensor, "batch n d_lstm"]) -> Outputs:
        key, value, predict = self.parts(h)
        visible = before(h.shape[1], self.span, h.device)[None, None]
        # (1), (2): alpha_t = softmax(w . tanh(W^Y k_i + W^h k_t)), i = t - L to t - 1; (3): r_t = sum of alpha_i v_i
        memory = self.attend.score.prepare(key[:, None])
        r = self.attend(key[:, None], memory, value[:, None], visible)[:, 0]
        combined: Tensor = torch.tanh(self.read(r) + self.predict(predict))  # (4)
        return combined


class NGramRNN(LanguageModel):
    """The N-gram RNN (section 2.4): h*_t = tanh(W^N [h^1_t; h^2_t-1; ...; h^(N-1)_t-N+2]).

    The LSTM has N - 1 parts of `d_output` units. Part i of the output is used i - 1 steps later, so W^N sees a part of
    each of the last N - 1 outputs.
    """

    def __init__(self, vocabulary: int, d_output: int, n: int = 4) -> None:
        super().__init__(vocabulary, d_output, (n - 1) * d_output)
        self.num_parts = n - 1
        self.join = nn.Linear((n - 1) * d_output, d_output, bias=False)  # W^N

    def combine(self, h: Float[Tensor, "batch n d_lstm"]) -> Outputs:
        length = h.shape[1]
        parts = [F.pad(part, (0, 0, back, 0))[:, :length] for back, part in enumerate(h.chunk(self.num_parts, dim=-1))]
        combined: Tensor = torch.tanh(self.join(torch.cat(parts, dim=-1)))
        return combined


def before(length: int, span: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """Return a mask of the `span` positions before each one, without the position itself."""
    return mask.restricted(length, span, device) & mask.causal(length, device).tril(-1)
