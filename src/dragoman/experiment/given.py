"""What the autopilot is given (the data, the time, the machine), and what follows from it by arithmetic alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from dragoman.data.prepare import suggested_size
from dragoman.experiment.census import Census
from dragoman.experiment.estimate import tokens_per_second
from dragoman.experiment.machine import Machine
from dragoman.models.config import ModelConfig, TransformerShape, sized
from dragoman.models.presets import find

SECONDS_A_PAIR: Final = 0.02
"""For one core to translate it with a tiny model."""


@dataclass(frozen=True)
class Size:
    """A model, and what it takes to make it worth its while."""

    preset: str
    rate: float
    """The learning rate it likes."""
    warmup: int
    tokens: int
    """Of an update."""
    vocabulary: int
    """Subwords at most: more would be most of the model."""
    fewest_pairs: int = 0
    fewest_updates: int = 0

    def shape(self, dropout: float = 0.1) -> TransformerShape:
        """The model before its vocabulary is known.

        Pre-norm, unlike the paper: at these rates the encoder of a small post-norm model soon says the same of every
        word of a sentence, and nothing is left for the decoder to look at (docs/results.md).
        """
        changes = {**find(self.preset).changes, "norm": "pre", "attention_bias": True, "dropout": dropout}
        return TransformerShape.model_validate(changes)


SIZES: Final = (
    Size("tiny", 3e-3, 800, 8192, 8_000),
    Size("small", 1.2e-3, 800, 4096, 16_000, fewest_pairs=10_000, fewest_updates=500),
    Size("paper-base", 7e-4, 4000, 24_576, 37_000, fewest_pairs=1_500_000, fewest_updates=20_000),
)
"""Smallest first. On very few pairs the smallest one, read very often, gives the best translations; on 29,000 the
second, in small updates, is ahead of it from the first minutes on (docs/results.md)."""


@dataclass(frozen=True)
class Given:
    """All that the choices follow from."""

    census: Census
    time: float
    """Seconds, from the command to the finished model."""
    machine: Machine

    @property
    def precision(self) -> Literal["bfloat16", "float32"]:
        """The faster one."""
        return "bfloat16" if self.machine.bfloat16 else "float32"

    @property
    def split(self) -> int:
        """Pairs to validate with: a tenth, but no more than a thousand, which make a score steady enough."""
        return min(1000, self.census.pairs // 10)

    @property
    def epoch(self) -> float:
        """Tokens of all training pairs."""
        return self.census.tokens * (self.census.pairs - self.split)

    @property
    def training_time(self) -> float:
        """The time without what comes before training (starting, preparing) and after it (scoring the model)."""
        around = 30.0 + self.census.pairs / 5_000 + SECONDS_A_PAIR * self.split
        left = max(1.0, self.time - around, self.time / 2)
        return left // 60 * 60 if left >= 1200 else left // 1

    @cached_property
    def size(self) -> Size:
        """The largest model that there are data and time for."""
        return [size for size in SIZES if self._is_enough(size)][-1]

    @property
    def most_epochs(self) -> int:
        """After which nothing new is to be learned."""
        pairs = self.census.pairs
        return 150 if pairs < 100_000 else 60 if pairs < 1_000_000 else 30

    @property
    def possible_epochs(self) -> float:
        """How often each pair can be read in the time."""
        return self.speed(self.size) * self.training_time / self.epoch

    @property
    def epochs(self) -> float:
        """How often each pair will be read."""
        return min(float(self.most_epochs), self.possible_epochs)

    def vocabulary(self, size: Size) -> int:
        """Few enough subwords for each to be seen often, as many as the letters need, and no more than there can be."""
        pairs = self.census.pairs
        wanted = min(suggested_size(pairs), int(32 * pairs**0.5), size.vocabulary)
        rounded = wanted // 100 * 100 if wanted > 1000 else wanted
        return max(self.census.smallest, min(rounded, self.census.largest))

    def model(self, size: Size) -> ModelConfig:
        """A size with the vocabulary it would have."""
        vocabulary = self.vocabulary(size)
        return sized(size.shape(), vocabulary, vocabulary)

    def speed(self, size: Size) -> float:
        """Tokens a second."""
        return tokens_per_second(self.model(size), self.precision, self.machine)

    def time_for(self, size: Size) -> float:
        """Seconds of training without which this size is not worth it."""
        return size.fewest_updates * size.tokens / self.speed(size)

    def _is_enough(self, size: Size) -> bool:
        return self.census.pairs >= size.fewest_pairs and self.training_time >= self.time_for(size)
