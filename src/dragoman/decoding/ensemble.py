"""An ensemble: several models with one vocabulary as one model, whose probabilities are the means of theirs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.decoding.decode_loop import next_log_probabilities
from dragoman.models.seq2seq import Logits, Seq2Seq, Source, State


@dataclass(frozen=True)
class EnsembleState(State):
    """The states of the models."""

    members: tuple[State, ...]

    def select(self, rows: Int[Tensor, " rows"]) -> "EnsembleState":
        return EnsembleState(tuple(state.select(rows) for state in self.members))


class Ensemble(Seq2Seq[tuple[Any, ...], EnsembleState]):
    """Several models that write together, token by token; they may be of different families and sizes."""

    def __init__(self, models: Sequence[Seq2Seq[Any, Any]]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.vocabulary = models[0].vocabulary
        self.max_target = min((model.max_target for model in models if model.max_target is not None), default=None)
        self.projection = nn.Identity()  # type: ignore[assignment]  # `hidden` returns log-probabilities

    @property
    def members(self) -> list[Seq2Seq[Any, Any]]:
        """The models, in the given order."""
        return cast("list[Seq2Seq[Any, Any]]", list(self.models))

    def encode(self, source: Source) -> tuple[Any, ...]:
        return tuple(model.encode(source) for model in self.members)

    def start(self, memory: tuple[Any, ...]) -> EnsembleState:
        return EnsembleState(tuple(model.start(each) for model, each in zip(self.members, memory, strict=True)))

    def step(self, tokens: Int[Tensor, " rows"], state: EnsembleState) -> tuple[Logits, EnsembleState]:
        """Return the log-probabilities of the mean, which are logits too, and the new state."""
        steps = [model.step(tokens, each) for model, each in zip(self.members, state.members, strict=True)]
        return _mean([logits for logits, _ in steps]), EnsembleState(tuple(each for _, each in steps))

    def hidden(self, memory: tuple[Any, ...], target: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n vocabulary"]:
        """Return the log-probabilities of the mean for all steps at once."""
        decoded = [model.decode(each, target) for model, each in zip(self.members, memory, strict=True)]
        shape = decoded[0].shape
        return _mean([logits.flatten(0, 1) for logits in decoded]).view(shape)


def _mean(logits: Sequence[Float[Tensor, "rows vocabulary"]]) -> Float[Tensor, "rows vocabulary"]:
    """Return the logarithms of the mean probabilities."""
    log_probabilities = torch.stack([next_log_probabilities(each) for each in logits])
    return log_probabilities.logsumexp(dim=0) - math.log(len(logits))
