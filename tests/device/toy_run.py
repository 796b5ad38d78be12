"""A small training on any device: random batches, and the losses of all updates."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.data.batches import Batch, Reader
from dragoman.device import choose_device
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import Group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer

VOCABULARY = 23
_SIZES = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
SHAPES: dict[str, ModelConfig] = {
    "transformer": TransformerConfig(
        **_SIZES, d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0
    ),
    "dropout": TransformerConfig(
        **_SIZES, d_model=16, d_ff=24, num_heads=2, num_encoder_layers=2, num_decoder_layers=1, dropout=0.3
    ),
    "bahdanau": RecurrentConfig(**_SIZES, d_model=8, d_embedding=6, dropout=0.0),
    "convs2s": ConvolutionalConfig(
        **_SIZES, d_model=8, d_embedding=6, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0
    ),
    "luong": RecurrentConfig(
        **_SIZES,
        context="luong",
        score="general",
        cell="lstm",
        bidirectional=False,
        d_model=8,
        d_embedding=8,
        dropout=0.0,
    ),
}


class RandomBatches(Reader):
    """Batches of two sizes, with random word links or without."""

    def __init__(self, rows: int = 7, has_links: bool = False) -> None:
        self.rows, self.has_links = rows, has_links

    def __reduce__(self) -> Any:
        return RandomBatches, (self.rows, self.has_links)

    def __call__(self, index: int) -> Batch:
        generator = np.random.default_rng(index)
        num_rows, longest = (2, 4) if index % 2 == 0 else (self.rows, 11)
        source, target = (generator.integers(NUM_SPECIALS, VOCABULARY, (num_rows, longest)) for _ in range(2))
        lengths = generator.integers(2, longest + 1, num_rows)[:, None]
        target[np.arange(longest) == lengths - 1] = EOS
        target[np.arange(longest) >= lengths] = PAD
        source[:, -1] = EOS
        guide = generator.dirichlet(np.ones(longest), target.shape).astype(np.float32) if self.has_links else None
        return Batch(index, source.astype(np.int32), target.astype(np.int32), "random", np.arange(num_rows), guide)


class ToyRun:
    """A trainer that has run, its losses by update, and its events."""

    def __init__(
        self,
        device: str,
        family: str,
        folder: Path,
        updates: int,
        group: Group | None = None,
        rows: int = 7,
        **changes: Any,
    ) -> None:
        settings = {
            "batches_per_update": 2,
            "schedule": {"factors": ["warmup"], "rate": 0.01, "warmup": 5},
            "stop": {"updates": updates},
            "checkpoints": {"every": None},
            "ema": 0.9,
            "validate_every": 20,
            "log_every": 1,
            "precision": "float32",
            "loader_workers": 0,
        }
        self.num_workers = 0
        self.losses: dict[int, float] = {}
        self.events: list[Event] = []
        seed_weights(1)
        model = build(SHAPES[family]).to(group.device if group else choose_device(device))
        config = TrainingConfig.model_validate(settings | changes)
        scores = {"bleu": 0.0, "loss": 1.0}
        reader = RandomBatches(rows, has_links="guided_alignment" in changes)
        self.trainer = Trainer(model, reader, config, lambda _: scores, folder, group=group, on_event=self._note)
        self.result = self.trainer.run()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self.num_workers = max(self.num_workers, len(multiprocessing.active_children()))
        if event["event"] == "update":
            self.losses[event["update"]] = event["loss"]
