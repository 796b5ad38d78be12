"""The interface every model family has: all that search, scoring, training and taps may know of a model.

A target is written one token at a time. `encode` reads the source once and gives a Memory, which only the model itself
understands. `start` opens the State of a decoder that has written nothing. `step` takes the last token of each row and
gives scores for the next one. A row is one hypothesis; rows are chosen, repeated and reordered with `State.select`.
`forward` is teacher forcing: the scores of all steps at once, when the target is known.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.data.vocab import BOS
from dragoman.layers.embedding import Projection

Source = Int[Tensor, "batch source"]
"""Token ids, each row ended by EOS and filled up with PAD."""

Logits = Float[Tensor, "rows vocabulary"]


class State(ABC):
    """What a decoder knows after some steps. Immutable: a step gives a new one."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of these rows, in this order; a row may come several times or not at all."""


MemoryT = TypeVar("MemoryT")
StateT = TypeVar("StateT", bound=State)


class Seq2Seq(nn.Module, ABC, Generic[MemoryT, StateT]):
    """A model from source tokens to target tokens."""

    projection: Projection
    """From the last hidden layer to scores: linear, without bias."""
    vocabulary: int
    """Number of target token ids."""
    max_target: int | None = None
    """The longest target it can write, in tokens with EOS; None = any."""

    @property
    def parts(self) -> Sequence[nn.Module]:
        """Modules that are used by calling them and in no other way: each can be gathered when its turn comes, where
        weights are shared out over processes. What is in none of them is gathered for the whole pass.
        """
        return ()

    @abstractmethod
    def encode(self, source: Source) -> MemoryT:
        """Read the source."""

    @abstractmethod
    def start(self, memory: MemoryT) -> StateT:
        """The decoder before its first step: one row for each source."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " rows"], state: StateT) -> tuple[Logits, StateT]:
        """Read the token each row wrote last (BOS at first); score what may come next."""

    @abstractmethod
    def hidden(self, memory: MemoryT, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target d_hidden"]:
        """All steps at once, up to what the projection turns into scores: the loss can do that more cheaply."""

    def decode(self, memory: MemoryT, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocabulary"]:
        """The scores of all steps at once: at each position, of the token after it."""
        logits: Tensor = self.projection(self.hidden(memory, target))
        return logits

    def forward(self, source: Source, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocabulary"]:
        """Teacher forcing: `target` begins with BOS."""
        return self.decode(self.encode(source), target)


def shifted(target: Int[Tensor, "batch target"]) -> Int[Tensor, "batch target"]:
    """What the decoder reads: at each place the token before it, BOS at the first."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
