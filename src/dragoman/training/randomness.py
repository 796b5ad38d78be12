"""All that is random in a batch depends on the seed and the batch's number alone: there is no generator to restore."""

import torch

from dragoman.data.permutation import key


def seed_batch(seed: int, index: int) -> None:
    """Set torch's generators for the batch of this number, counted through all epochs."""
    torch.manual_seed(key(seed, "batch", index) >> 1)


def seed_weights(seed: int) -> None:
    """Set torch's generators for a model about to be initialised."""
    torch.manual_seed(key(seed, "weights") >> 1)
