"""Several attentions side by side, each in a small space of its own (section 3.2.2), and the cache of what they saw."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention.attend import Attend
from dragoman.attention.score import ScaledDot


class KeyValue(NamedTuple):
    """The projected keys and values of the positions seen so far: all that attention remembers of them."""

    key: Float[Tensor, "batch heads keys d_k"]
    value: Float[Tensor, "batch heads keys d_v"]

    def append(self, new: "KeyValue") -> "KeyValue":
        """The cache after more positions."""
        return KeyValue(torch.cat([self.key, new.key], dim=2), torch.cat([self.value, new.value], dim=2))

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValue":
        """The cache of these rows, in this order."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class MultiHead(nn.Module):
    """Project, split into heads, attend, join, project.

    d_k = d_v = d_model / num_heads unless given: Table 3's rows B vary d_k alone. The paper draws no bias in the
    projections; `bias=True` is what torch, fairseq and others do.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        d_k = d_k or d_model // num_heads
        d_v = d_v or d_model // num_heads
        self.query = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.key = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.value = nn.Linear(d_model, num_heads * d_v, bias=bias)
        self.output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        self.attend = Attend(ScaledDot(), dropout)

    def remember(self, seen: Float[Tensor, "batch keys d_model"]) -> KeyValue:
        """Keys and values of positions that may be asked about, in the form `forward` and the cache take."""
        return KeyValue(self._split(self.key(seen)), self._split(self.value(seen)))

    def forward(
        self,
        asking: Float[Tensor, "batch queries d_model"],
        seen: KeyValue,
        visible: Bool[Tensor, "#batch #heads #queries keys"] | None = None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "batch queries d_model"]:
        heads = self.attend(self._split(self.query(asking)), seen.key, seen.value, visible, causal=causal)
        joined: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return joined

    def _split(self, x: Float[Tensor, "batch n joined"]) -> Float[Tensor, "batch heads n d"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
