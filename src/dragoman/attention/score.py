"""Attention score functions, from Bahdanau et al. (2015) to the scaled dot product, and relatives of both.

A score has two parts. `prepare` depends on the key alone: a step-by-step decoder computes it once per source. `forward`
compares queries with prepared keys.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Queries = Float[Tensor, "*#batch queries d_query"]
Keys = Float[Tensor, "*#batch keys d_key"]
Scores = Float[Tensor, "*batch queries keys"]


class Score(nn.Module):
    """A score function: one number for each pair of query and key."""

    power: ClassVar[float | None] = None
    """The exponent if the score is q . k * d_k ** power, which fused kernels can compute; otherwise None."""

    def prepare(self, key: Keys) -> Float[Tensor, "*#batch keys d_prepared"]:
        """Return the part of the score that depends on the keys alone; `forward` takes it as `key`."""
        return key

    def forward(self, query: Queries, key: Float[Tensor, "*#batch keys d_prepared"]) -> Scores:
        raise NotImplementedError


class Dot(Score):
    """Dot-product score: q . k (Luong et al., 2015)."""

    power = 0.0

    def forward(self, query: Queries, key: Keys) -> Scores:
        return torch.matmul(query, key.transpose(-2, -1))


class ScaledDot(Score):
    """Scaled dot-product score: q . k / sqrt(d_k). Without the division the softmax saturates as d_k grows."""

    power = -0.5

    def forward(self, query: Queries, key: Keys) -> Scores:
        # The query is the smaller side to divide: n * d_k numbers instead of n * n.
        return torch.matmul(query / math.sqrt(query.shape[-1]), key.transpose(-2, -1))


class General(Score):
    """General score: q . W k (Luong et al., 2015)."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.key = nn.Linear(d_key, d_query, bias=False)

    def prepare(self, key: Keys) -> Float[Tensor, "*#batch keys d_query"]:
        projected: Tensor = self.key(key)
        return projected

    def forward(self, query: Queries, key: Float[Tensor, "*#batch keys d_query"]) -> Scores:
        return torch.matmul(query, key.transpose(-2, -1))


class Cosine(Score):
    """Cosine score with a learned sharpness: b q . k / (|q| |k|) with b > 0 (Graves et al., 2014, section 3.3.1).

    In the Neural Turing Machine the controller writes a sharpness at every step; here it is one number, which begins at
    `START`: at 1 a softmax over cosines is nearly flat.
    """

    START: ClassVar[float] = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.log_sharpness = nn.Parameter(torch.tensor([math.log(self.START)]))

    def prepare(self, key: Keys) -> Keys:
        return F.normalize(key, dim=-1)

    def forward(self, query: Queries, key: Keys) -> Scores:
        return torch.matmul(F.normalize(query, dim=-1) * self.log_sharpness.exp(), key.transpose(-2, -1))


class BiasedGeneral(Score):
    """Biased general score: k . (W q + b) (Sordoni et al., 2016). b makes some keys better for every query."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_key)

    def forward(self, query: Queries, key: Keys) -> Scores:
        return torch.matmul(self.query(query), key.transpose(-2, -1))


class ActivatedGeneral(General):
    """Activated general score: tanh(q . W k + b) (Ma et al., 2017): all scores are between -1 and 1."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__(d_query, d_key)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, query: Queries, key: Float[Tensor, "*#batch keys d_query"]) -> Scores:
        return torch.tanh(super().forward(query, key) + self.bias)


class Location(Score):
    """Location score: entry j of W q for the key at position j, whatever the key is (Luong et al., 2015).

    W has a row for each of the first `num_positions` positions. Keys beyond them are ignored.
    """

    def __init__(self, d_query: int, num_positions: int) -> None:
        super().__init__()
        self.position = nn.Linear(d_query, num_positions, bias=False)

    def forward(self, query: Queries, key: Keys) -> Scores:
        scores: Tensor = self.position(query)[..., : key.shape[-2]]
        missing = key.shape[-2] - scores.shape[-1]
        return F.pad(scores, (0, missing), value=torch.finfo(scores.dtype).min) if missing else scores


class Additive(Score):
    """Additive score: v . tanh(W q + U k) (Bahdanau et al., 2015, appendix A.1.2)."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.value = nn.Linear(d_hidden, 1, bias=False)

    def prepare(self, key: Keys) -> Float[Tensor, "*#batch keys d_hidden"]:
        projected: Tensor = self.key(key)
        return projected

    def forward(self, query: Queries, key: Float[Tensor, "*#batch keys d_hidden"]) -> Scores:
        hidden = torch.tanh(self.query(query)[..., :, None, :] + key[..., None, :, :])  # [*batch, queries, keys, d]
        scores: Tensor = self.value(hidden)
        return scores.squeeze(-1)


class Concat(Score):
    """Concat score: v . tanh(W [q; k]) (Luong et al., 2015). W is applied in two halves, to q and to k."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.d_query = d_query
        self.joint = nn.Linear(d_query + d_key, d_hidden, bias=False)
        self.value = nn.Linear(d_hidden, 1, bias=False)

    def prepare(self, key: Keys) -> Float[Tensor, "*#batch keys d_hidden"]:
        return nn.functional.linear(key, self.joint.weight[:, self.d_query :])

    def forward(self, query: Queries, key: Float[Tensor, "*#batch keys d_hidden"]) -> Scores:
        projected = nn.functional.linear(query, self.joint.weight[:, : self.d_query])
        hidden = torch.tanh(projected[..., :, None, :] + key[..., None, :, :])  # [*batch, queries, keys, d]
        scores: Tensor = self.value(hidden)
        return scores.squeeze(-1)
