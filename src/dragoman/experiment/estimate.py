"""What a training takes of time, memory and disk, roughly, before it begins. No torch here.

The speeds were measured on one machine; how much faster or slower another one is, speed.py finds out. They are right
within a factor of two or so, which is enough to choose by: training measures its own.
"""

from typing import Final

from dragoman.experiment.machine import Machine
from dragoman.experiment.recipe import Recipe
from dragoman.models import cost
from dragoman.models.config import ModelConfig, sized

_SECONDS_A_TOKEN: Final = 85e-6
"""Of one core, for whatever is not a matrix product: most of the time of a small model."""

_PRODUCTS: Final = {"bfloat16": 180e9, "float32": 90e9}
"""FLOP/s that the products of one core reach in training."""

_PROCESS: Final = 500_000_000
"""Bytes that a process needs before it has a model: torch itself."""

_COPIES: Final = 6
"""Of the weights: themselves, their gradients, Adam's two means, the best so far, and the moving average."""

_PREPARED: Final = 5
"""Bytes on disk for a byte of text while it is prepared: raw, cleaned and encoded chunks, and the shards."""

_FILL: Final = 0.93
"""Share of a batch's tokens that are not padding, or room that no pair fits in."""


def tokens_per_second(model: ModelConfig, precision: str, machine: Machine) -> float:
    """Source and target tokens that all cores together train on in a second."""
    length = cost.SENTENCE
    flops = cost.training_flops(model, length, length) / (2 * length)
    return machine.speed * machine.cores / (_SECONDS_A_TOKEN + flops / _PRODUCTS[precision])


def tokens_per_update(recipe: Recipe) -> float:
    """Tokens of an update, padding not counted."""
    training = recipe.training
    return _FILL * training.batch.tokens * training.batches_per_update / training.batch.headroom


def model_of(recipe: Recipe, vocabulary: int) -> ModelConfig:
    """The recipe's model, with this many subwords if the recipe leaves their number open."""
    size = recipe.data.vocabulary.size if recipe.data.vocabulary else vocabulary
    return sized(recipe.model, size, size)


def training_memory(recipe: Recipe, model: ModelConfig, processes: int) -> int:
    """Bytes that so many processes need at least."""
    tokens = recipe.training.batch.tokens // 2
    activations = cost.memory(model, tokens).activations
    if recipe.training.precision == "bfloat16":
        activations //= 2
    return processes * (_PROCESS + _COPIES * cost.FLOAT32 * cost.parameters(model) + activations)


def disk_space(recipe: Recipe, model: ModelConfig, num_bytes: int) -> int:
    """Bytes that a run on so much text writes: the prepared text, the snapshots, and the bundle."""
    snapshots = recipe.training.snapshots
    weights = cost.FLOAT32 * cost.parameters(model) * (2 + (snapshots.average if snapshots.every else 0))
    return _PREPARED * num_bytes + weights
