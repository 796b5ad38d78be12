"""Multi-head attention (section 3.2.2 of the paper), and its key-value cache."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention.attend import Attend
from dragoman.attention.rotary import rotate
from dragoman.attention.score import ScaledDot


class KeyValue(NamedTuple):
    """A key-value cache: the projected keys and values of the positions so far."""

    key: Float[Tensor, "batch heads keys d_k"]
    value: Float[Tensor, "batch heads keys d_v"]

    def append(self, new: "KeyValue") -> "KeyValue":
        """Return the cache with the positions of `new` appended."""
        return KeyValue(torch.cat([self.key, new.key], dim=2), torch.cat([self.value, new.value], dim=2))

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValue":
        """Return the cache with the selected batch rows, in the given order."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class MultiHead(nn.Module):
    """Multi-head attention: project, split into heads, attend, concatenate, project.

    By default d_k = d_v = d_model / num_heads; rows B of the paper's Table 3 vary d_k alone. The paper's projections
    have no bias; those of torch and fairseq do, as with `bias=True`. With `rotary`, queries and keys turn
    with their positions.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        bias: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.rotary = rotary
        d_k = d_k or d_model // num_heads
        d_v = d_v or d_model // num_heads
        self.query = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.key = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.value = nn.Linear(d_model, num_heads * d_v, bias=bias)
        self.output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        self.attend = Attend(ScaledDot(), dropout)

    def remember(self, seen: Float[Tensor, "batch keys d_model"], start: int = 0) -> KeyValue:
        """Project the hidden states `seen`, of which the first is at position `start`, to keys and values."""
        return KeyValue(self._turn(self._split(self.key(seen)), start), self._split(self.value(seen)))

    def forward(
        self,
        query: Float[Tensor, "batch queries d_model"],
        seen: KeyValue,
        visible: Bool[Tensor, "#batch #heads #queries keys"] | None = None,
        *,
        causal: bool = False,
        start: int = 0,
    ) -> Float[Tensor, "batch queries d_model"]:
        """Attend from the queries, of which the first is at position `start`, to what `remember` returned."""
        turned = self._turn(self._split(self.query(query)), start)
        heads = self.attend(turned, seen.key, seen.value, visible, causal=causal)
        joined: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return joined

    def _turn(self, x: Float[Tensor, "batch heads n d_k"], start: int) -> Float[Tensor, "batch heads n d_k"]:
        return rotate(x, start) if self.rotary else x

    def _split(self, x: Float[Tensor, "batch n joined"]) -> Float[Tensor, "batch heads n d"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
