"""Tokens as vectors, and vectors as scores over tokens (sections 3.4 and 3.5)."""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.layers.dropout import Dropout
from dragoman.layers.positions import Positions


class Embedding(nn.Module):
    """token * sqrt(d_model) + position, with dropout on the sum (section 5.4)."""

    def __init__(self, tokens: nn.Embedding, positions: Positions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim)

    def forward(self, tokens: Int[Tensor, "batch n"], start: int = 0) -> Float[Tensor, "batch n d_model"]:
        """The vectors of tokens that stand at positions `start` and on."""
        position = self.positions(start, tokens.shape[1])
        embedded: Tensor = self.dropout(self.tokens(tokens) * self.scale + position)
        return embedded


class Projection(nn.Module):
    """A score for each token of the vocabulary: the transposed token embedding when tied, else a matrix of its own."""

    def __init__(self, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens

    @property
    def weight(self) -> Float[Tensor, "vocabulary d_model"]:
        return self.tokens.weight

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocabulary"]:
        return F.linear(x, self.weight)


def token_table(vocabulary: int, d_model: int) -> nn.Embedding:
    """One vector a token. Times sqrt(d_model) they have about unit variance; as output weights, small logits."""
    table = nn.Embedding(vocabulary, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table
