"""A run small enough for hundreds of updates a second: random pairs as batches, and a Transformer of two layers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.batches import Batch, Reader
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.config import TrainingConfig
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer

VOCABULARY = 19
SHAPE = TransformerConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    d_model=12,
    d_ff=20,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    dropout=0.2,
    max_positions=16,
)


class Held(Reader):
    """Batches in memory, over and over."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __call__(self, index: int) -> Batch:
        return replace(self.batches[index % len(self.batches)], index=index)


def batch(generator: np.random.Generator, number: int) -> Batch:
    """Of another number of rows each time, and so of tokens."""
    num_rows = 2 + number % 4

    def side(shortest: int, longest: int) -> np.ndarray:
        lengths = generator.integers(shortest, longest + 1, num_rows)
        rows = generator.integers(NUM_SPECIALS, VOCABULARY, (num_rows, lengths.max()))
        place = np.arange(lengths.max())
        rows[place == lengths[:, None] - 1] = EOS
        rows[place >= lengths[:, None]] = PAD
        return rows.astype(np.int32)

    return Batch(number, side(3, 7), side(4, 9), "little", 100 * number + np.arange(num_rows))


@pytest.fixture
def batches() -> list[Batch]:
    generator = np.random.default_rng(11)
    return [batch(generator, number) for number in range(7)]


@pytest.fixture
def model() -> Seq2Seq[Any, Any]:
    seed_weights(5)
    return build(SHAPE)


@pytest.fixture
def trainer(batches: list[Batch], tmp_path: Path) -> Callable[..., Trainer]:
    """A trainer with its own fresh model; what it tells is in `trainer.told`."""

    def make(
        config: Mapping[str, Any], validate: Any = lambda _: {"loss": 1.0, "bleu": 0.0, "samples": []}, **changes: Any
    ) -> Trainer:
        seed_weights(5)
        told: list[Event] = []
        settings = {"reader": Held(batches), "folder": tmp_path, "on_event": told.append, "d_model": 12, "seed": 3}
        made = Trainer(build(SHAPE), config=described(config), validate=validate, **(settings | changes))
        made.told = told  # type: ignore[attr-defined]
        return made

    return make


def described(config: Mapping[str, Any]) -> TrainingConfig:
    usual = {
        "schedule": {"factors": ["warmup"], "rate": 0.01, "warmup": 5},
        "validate_every": 1000,
        "log_every": 1,
        "checkpoints": {"every": None},  # several trainers of one test may share a folder
    }
    return TrainingConfig.model_validate(usual | dict(config))
