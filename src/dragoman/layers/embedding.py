"""Token embeddings with positions, and the output projection to logits (sections 3.4 and 3.5 of the paper)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.layers.dropout import Dropout
from dragoman.layers.positions import Positions


class Embedding(nn.Module):
    """Token embedding * sqrt(d_model) + position encoding, with dropout on the sum (section 5.4 of the paper).

    `scale` is another factor than sqrt(d_model).
    """

    def __init__(self, tokens: nn.Embedding, positions: Positions, dropout: float, scale: float | None = None) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale is None else scale

    def forward(self, tokens: Int[Tensor, "batch n"], start: int = 0) -> Float[Tensor, "batch n d_model"]:
        """Return the embeddings of tokens whose first position is `start`."""
        position = self.positions(start, tokens.shape[1])
        embedded: Tensor = self.dropout(self.tokens(tokens) * self.scale + position)
        return embedded


class Projection(nn.Module):
    """The output projection to logits over the vocabulary, which may share its matrix with a token embedding.

    The paper has no bias there; with `bias` the projection adds one, at first of zeros.
    """

    def __init__(self, tokens: nn.Embedding, bias: bool = False) -> None:
        super().__init__()
        self.tokens = tokens
        self.bias = nn.Parameter(torch.zeros(tokens.num_embeddings)) if bias else None

    @property
    def weight(self) -> Float[Tensor, "vocabulary d_model"]:
        return self.tokens.weight

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocabulary"]:
        return F.linear(x, self.weight, self.bias)


def token_table(vocabulary: int, d_model: int) -> nn.Embedding:
    """Return a token embedding table with variance 1/d_model.

    The scaled embeddings then have variance 1, and the logits are small if the table is also the output projection.
    """
    table = nn.Embedding(vocabulary, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table
