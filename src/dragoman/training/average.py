"""The exponential moving average of the weights, and weights as things to copy and put back."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Weights = Mapping[str, Tensor]


class MovingAverage:
    """An exponential moving average of a model's weights. Young averages forget faster: after n updates the decay is
    at most (1 + n) / (10 + n), so that the first weights, which know nothing, do not linger.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        self.weights = copied(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after an update."""
        self.num_updates += 1
        share = 1.0 - min(self.decay, (1.0 + self.num_updates) / (10.0 + self.num_updates))
        torch._foreach_lerp_(list(self.weights.values()), [p.detach() for p in model.parameters()], share)


def copied(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now. A matrix that serves in several places comes once."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@torch.no_grad()
def put(weights: Weights, model: nn.Module) -> None:
    """Give a model these weights."""
    own = dict(model.named_parameters())
    assert own.keys() == weights.keys()
    for name, weight in own.items():
        weight.copy_(weights[name])
