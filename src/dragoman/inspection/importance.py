"""How much the loss would feel each head: the gradient of a mask on its attention (Michel et al., 2019, section 4.1).

Each head's weights are multiplied by a mask of 1. How steeply a sentence's loss would change with that mask is
|dL/dm|, a first-order guess of what switching the head off would do. It is cheap, one backward pass a sentence, and it
is a guess: heads stand in for each other, so remove them and decode again before believing it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from dragoman.attention.tap import Sight, Tap, Weights, seams
from dragoman.config import Config
from dragoman.data.vocab import BOS
from dragoman.decoding.walk import next_log_probabilities, require_eval
from dragoman.models.seq2seq import Seq2Seq

Progress = Callable[[int, int], bool | None]
"""Is told how many of how many parts are done; what it answers with False is given up."""


class GivenUpError(Exception):
    """Somebody had seen enough."""


class HeadImportance(Config):
    """Of one head."""

    name: str = Field(description="the qualified name of its attention")
    head: int = Field(ge=0)
    importance: float = Field(ge=0, description="|dL/dm|, added up over sentences, L a sentence's -log p")
    num_sentences: int = Field(ge=1)


def head_importance(
    model: Seq2Seq[Any, Any],
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    *,
    per_layer: bool = False,
    progress: Progress | None = None,
) -> list[HeadImportance]:
    """Every head of every attention, from pairs of source and target ids, each ended by EOS.

    With `per_layer` the numbers of each attention are divided by their root sum of squares, as Michel et al. do before
    they compare layers.
    """
    if not any(True for _ in seams(model)):
        raise ValueError("this model has no attention, so no head of it can be important: choose another one")
    total: dict[str, Tensor] = {}
    sentences = list(pairs)
    if not sentences:
        raise ValueError("there are no sentences to measure the heads by: give at least one pair")
    for done, (source, target) in enumerate(sentences, 1):
        for name, slope in _slopes(model, source, target).items():
            total[name] = total.get(name, torch.zeros_like(slope)) + slope
        tell(progress, done, len(sentences))
    if per_layer:
        total = {name: slopes / slopes.norm().clamp_min(1e-30) for name, slopes in total.items()}
    return [
        HeadImportance(name=name, head=head, importance=slope, num_sentences=len(sentences))
        for name, slopes in total.items()
        for head, slope in enumerate(slopes.tolist())
    ]


def _slopes(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int]
) -> dict[str, Float[Tensor, " heads"]]:
    masks: dict[str, Tensor] = {}

    def masked(sight: Sight) -> Weights:
        if sight.name not in masks:
            masks[sight.name] = sight.weights.new_ones(sight.weights.shape[1], requires_grad=True)
        return sight.weights * masks[sight.name][:, None, None]

    with gradients(model), Tap(model, edit=masked):
        loss = -said(model, model.encode(as_row(model, source)), target).sum()
        slopes = torch.autograd.grad(loss, list(masks.values()))
    return {name: slope.abs().double().cpu() for name, slope in zip(masks, slopes, strict=True)}


@contextmanager
def gradients(model: Seq2Seq[Any, Any]) -> Iterator[None]:
    """Slopes of a model that is not in training, whatever the caller has forbidden; cuDNN knows none for its cells."""
    require_eval(model)
    with torch.inference_mode(False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield


def said(model: Seq2Seq[Any, Any], memory: Any, target: Sequence[int]) -> Float[Tensor, " target"]:
    """The log-probability of each token of a target that is forced."""
    logits = model.decode(memory, as_row(model, [BOS, *target[:-1]]))[0]
    return next_log_probabilities(logits).gather(1, as_row(model, target)[0][:, None])[:, 0]


def as_row(model: Seq2Seq[Any, Any], ids: Sequence[int]) -> Tensor:
    """One sentence, where the model is."""
    return torch.tensor([ids], device=next(model.parameters(), torch.empty(0)).device)


def tell(progress: Progress | None, done: int, total: int) -> None:
    """How far it is; raises `GivenUpError` if that was enough."""
    if progress is not None and progress(done, total) is False:
        raise GivenUpError(f"cancelled after {done} of {total}")
