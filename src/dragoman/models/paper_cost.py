"""What the paper's own runs cost: its arithmetic in Table 2 beside a count of the FLOPs the models really take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dragoman.models.config import ModelConfig
from dragoman.models.cost import BATCH, training_flops

NUM_GPUS: Final = 8
"""One machine of section 5.2."""

P100_FLOPS: Final = 9.5e12
"""FLOPs a second that the paper takes each of its GPUs to sustain in single precision (section 6.1, footnote)."""


@dataclass(frozen=True)
class Run:
    """A training run as the paper describes it (sections 5.2 and 6.1)."""

    steps: int
    hours: float
    printed_flops: float
    """The training cost Table 2 prints."""

    @property
    def spent(self) -> float:
        """The paper's arithmetic: seconds x GPUs x their sustained speed."""
        return self.hours * 3600 * NUM_GPUS * P100_FLOPS

    def computed(self, config: ModelConfig) -> float:
        """FLOPs of as many steps, each on about 25,000 source and 25,000 target tokens."""
        return self.steps * training_flops(config, BATCH)

    def utilisation(self, config: ModelConfig) -> float:
        """The share of the time spent that the model's own arithmetic accounts for, at that speed."""
        return self.computed(config) / self.spent


TABLE_2: Final[Mapping[str, Run]] = {
    "paper-base": Run(steps=100_000, hours=12.0, printed_flops=3.3e18),
    "paper-big": Run(steps=300_000, hours=3.5 * 24, printed_flops=2.3e19),
}
"""The runs whose cost the paper prints, by preset."""
