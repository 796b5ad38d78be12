"""The interface of all model families. Search, scoring, training and inspection use only this interface.

A target is decoded one token at a time. `encode` reads the source once and returns a Memory, which is opaque to the
caller. `start` returns the State of a decoder before its first step. `step` takes the last token of each row and
returns logits for the next token. A row is one hypothesis; `State.select` selects, repeats and reorders rows. `forward`
is teacher forcing: the logits of all steps at once, for a known target.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.layers.embedding import Projection
from dragoman.text.vocab import BOS

Source = Int[Tensor, "batch source"]
"""Token ids; each row ends with EOS and is padded with PAD."""

Logits = Float[Tensor, "rows vocabulary"]


class State(ABC):
    """The state of a decoder between two steps. Immutable: a step returns a new state."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """Return the state of the rows with these indices, in this order; indices may repeat."""


MemoryT = TypeVar("MemoryT")
StateT = TypeVar("StateT", bound=State)


class Seq2Seq(nn.Module, ABC, Generic[MemoryT, StateT]):
    """The base class of all sequence-to-sequence models."""

    projection: Projection
    """The output projection from the last hidden layer to logits: linear, with or without bias."""
    vocabulary: int
    """The number of target token ids."""
    max_target: int | None = None
    """The maximum target length in tokens with EOS; None: unlimited."""

    @property
    def parts(self) -> Sequence[nn.Module]:
        """The modules to shard over processes: modules whose weights are used only in `forward`.

        The weights of each such module are gathered when the module is called, all other weights for the whole pass.
        """
        return ()

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The modules that training can compile, or compute again in the backward pass, one by one."""
        return ()

    @abstractmethod
    def encode(self, source: Source) -> MemoryT:
        """Encode a batch of sources into the memory of the decoder."""

    @abstractmethod
    def start(self, memory: MemoryT) -> StateT:
        """Return the decoder state before the first step, with one row per source."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " rows"], state: StateT) -> tuple[Logits, StateT]:
        """Read the last token of each row (BOS at first); return logits for the next token, and the new state."""

    @abstractmethod
    def hidden(self, memory: MemoryT, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target d_hidden"]:
        """Return the input of the output projection for all steps at once; the loss applies the projection."""

    def decode(self, memory: MemoryT, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocabulary"]:
        """Return the logits for the next token at every target position, in one pass."""
        logits: Tensor = self.projection(self.hidden(memory, target))
        return logits

    def forward(self, source: Source, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocabulary"]:
        """Return the logits of all steps in teacher forcing; `target` begins with BOS."""
        return self.decode(self.encode(source), target)


def shifted(target: Int[Tensor, "batch target"]) -> Int[Tensor, "batch target"]:
    """Return the decoder input: the target shifted right by one position, with BOS first."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
