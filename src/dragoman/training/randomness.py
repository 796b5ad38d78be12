"""Random seeds: each batch is seeded by its index, so checkpoints need not save the state of generators."""

import torch

from dragoman.data.permutation import key


def seed_batch(seed: int, index: int) -> None:
    """Seed torch's generators for the batch with this index, counted over all epochs."""
    torch.manual_seed(key(seed, "batch", index) >> 1)


def seed_weights(seed: int) -> None:
    """Seed torch's generators for the initialisation of a model."""
    torch.manual_seed(key(seed, "weights") >> 1)
