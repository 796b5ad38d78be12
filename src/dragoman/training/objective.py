"""What training minimises for one batch: teacher forcing and the loss, as one module that can be shared out."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.training.config import LossConfig
from dragoman.training.loss import projected_label_smoothed
from dragoman.training.r_drop import projected_r_drop


class Objective(nn.Module):
    """A model and its loss. Its forward pass is the whole computation, so that gradients can be shared after it."""

    def __init__(self, model: Seq2Seq[Any, Any], config: LossConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config

    def forward(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]) -> Float[Tensor, ""]:
        """The loss summed over the target's tokens."""
        config, weight = self.config, self.model.projection.weight
        read = shifted(target)
        if not config.r_drop:
            hidden = self.model.hidden(self.model.encode(source), read)
            return projected_label_smoothed(hidden, weight, target, config.label_smoothing, config.spread).total
        twice = self.model.hidden(self.model.encode(source.repeat(2, 1)), read.repeat(2, 1))
        hidden = twice.view(2, *target.shape, -1)
        return projected_r_drop(hidden, weight, target, config.r_drop, config.label_smoothing, config.spread).total
