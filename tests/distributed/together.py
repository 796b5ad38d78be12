"""What one process, or two together, make of the same run: python together.py FOLDER, once for each with torch's
environment of ranks, or without it for one alone. What each found is left in FOLDER/RANK-of-SIZE.pt.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed as dist

from dragoman.bundle import open_bundle
from dragoman.data.batches import Batch, Reader
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import load_model
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.validator import Validator, translate_together
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.averages import copy_weights
from dragoman.training.config import TrainingConfig
from dragoman.training.parallel import Group, init_group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Trainer

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
UPDATES, BATCHES_PER_UPDATE, VOCABULARY = 50, 4, 23
SHAPES = {
    "transformer": TransformerConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        d_model=16,
        d_ff=24,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dropout=0.3,
    ),
    "bahdanau": RecurrentConfig(
        source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, d_model=8, d_embedding=6, dropout=0.3
    ),
    "convs2s": ConvolutionalConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        d_model=8,
        d_embedding=6,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dropout=0.3,
    ),
}
PAIRS = TextPairs(
    "few",
    ["two red dogs.", "ten", "four green women and three old tables.", "three old houses.", "two red dogs."],
    ["zwei rote Hunde.", "zehn", "vier grüne Frauen und drei alte Tische.", "drei alte Häuser.", "zwei rote Hunde."],
)


class Random(Reader):
    """Batches of very different sizes: even ones are small, so that one process of two has far fewer tokens."""

    def __init__(self) -> None:
        pass

    def __call__(self, index: int) -> Batch:
        generator = np.random.default_rng(index)
        num_rows, longest = (2, 4) if index % 2 == 0 else (7, 11)
        source, target = (generator.integers(NUM_SPECIALS, VOCABULARY, (num_rows, longest)) for _ in range(2))
        lengths = generator.integers(2, longest + 1, num_rows)[:, None]
        target[np.arange(longest) == lengths - 1] = EOS
        target[np.arange(longest) >= lengths] = PAD
        source[:, -1] = EOS
        return Batch(index, source.astype(np.int32), target.astype(np.int32), "random", np.arange(num_rows))


class MeanOfMeans(Trainer):
    """What one must not do: each process divides by its own tokens, and the means are averaged."""

    def __init__(self, *settings: Any, **named: Any) -> None:
        super().__init__(*settings, **named)
        shared = self.gradients.of_batch
        self.gradients.of_batch = lambda batch, _: shared(batch, False)  # type: ignore[method-assign]

    def reduce(self, total: float, own: list[Batch]) -> tuple[float, float, float]:
        self.own_tokens = float(sum((batch.target != PAD).sum() for batch in own))
        return super().reduce(total, own)

    def scale_gradient(self, tokens: float) -> float:
        for weight in self.model.parameters():
            assert weight.grad is not None
            weight.grad /= self.own_tokens * self.group.world_size
            if self.group.world_size > 1:
                dist.all_reduce(weight.grad)
        return 1.0


def trained(
    group: Group, kind: type[Trainer], family: str, folder: Path, updates: int, **changes: Any
) -> dict[str, Any]:
    """The losses of a run, and the weights after its first update and after its last."""
    settings = {
        "batches_per_update": BATCHES_PER_UPDATE,
        "optimizer": {"epsilon": 1.0, "clip": 5.0},  # Adam would hide the length of the first gradient
        "schedule": {"factors": ["warmup"], "rate": 0.1, "warmup": 10},
        "stop": {"updates": updates},
        "ema": 0.9,
        "snapshots": {"every": 20, "average": 2},
        "log_every": 1,
        "validate_every": updates,
        "checkpoints": {"every": None},
    }
    seed_weights(1)
    config = TrainingConfig.model_validate(settings | changes)
    model = build(SHAPES[family])
    found: dict[str, Any] = {"losses": [], "gradients": [], "first": {}, "told": []}

    def on_event(event: Event) -> None:
        found["told"].append(event["event"])
        if event["event"] == "update":
            found["losses"].append(event["loss"])
            found["gradients"].append(event["gradient"])
            if config.parallel == "ddp":  # gathering shares takes all processes, and only the first is told
                found["first"] = found["first"] or copy_weights(model)

    trainer = kind(
        model, Random(), config, lambda _: {"bleu": 0.0, "loss": 1.0}, folder, group=group, on_event=on_event
    )
    outcome = trainer.run()
    return found | {"last": dict(outcome.weights), "which": outcome.which}


def collected(group: Group) -> dict[str, Any]:
    return {
        "sums": group.all_reduce([1.0 + group.rank, 2.0**-60 * (group.rank + 1), 5.0]),
        "said": group.broadcast_from_first({"rank": group.rank, "text": "für alle"}),
        "gathered": group.all_gather((group.rank, "x" * group.rank)),
    }


def validated(group: Group) -> dict[str, Any]:
    bundle = open_bundle(GOLDEN)
    model = load_model(bundle).train()
    search = SearchOptions(beam_size=2)
    scores = Validator([PAIRS], bundle.vocab, search, MetricOptions(), 2, group)(model)
    alone = translate_together(model, bundle.vocab, PAIRS.source[:1], search, group)
    return {"scores": scores, "is_training": model.training, "one_text": alone}


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    with init_group() as group:
        found = {
            "group": collected(group),
            "validated": validated(group),
            "transformer": trained(group, Trainer, "transformer", folder, UPDATES),
            "r_drop": trained(group, Trainer, "transformer", folder, 3, loss={"r_drop": 2.0}),
            "bahdanau": trained(group, Trainer, "bahdanau", folder, 3),
            "convs2s": trained(group, Trainer, "convs2s", folder, 3),
            "shared out": trained(group, Trainer, "transformer", folder, UPDATES, parallel="fsdp"),
            "shared out, one": trained(group, Trainer, "transformer", folder, 1, parallel="fsdp", ema=None),
            "bahdanau shared out": trained(group, Trainer, "bahdanau", folder, 1, parallel="fsdp", ema=None),
            "convs2s shared out": trained(group, Trainer, "convs2s", folder, 1, parallel="fsdp", ema=None),
            "mean of means": trained(group, MeanOfMeans, "transformer", folder, 3),
        }
        torch.save(found, folder / f"{group.rank}-of-{group.world_size}.pt")


if __name__ == "__main__":
    main()
