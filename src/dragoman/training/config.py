"""The configuration of training. Does not import torch, so that recipes load quickly.

The defaults are those of the paper (section 5); methods from later work are off by default.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from dragoman.config import Config
from dragoman.data.augment import AugmentConfig
from dragoman.data.order import BatchConfig

CHECKPOINTS: Final = "checkpoints"
"""The name of the checkpoint folder in a run folder; a finished run has no checkpoints."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PARTS = "".join(rf"(\d+(\.\d+)?\s*{unit})?" for unit in reversed(_UNITS))
_DURATION = rf"^(?=\d){_PARTS}$"
"""The pattern of a duration: each unit at most once, the largest first."""


TIMEOUT: Final = "10m"
"""The default time that a training process waits for the others."""


def parse_duration(text: Any) -> float:
    """Return the number of seconds in a duration such as `90s`, `45m`, `1.5h`, `1h30m` or `3d`."""
    is_known = isinstance(text, str) and re.search(_DURATION, text.strip())
    parts = re.findall(r"([\d.]+)\s*([smhd])", text) if is_known else []
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not total:
        raise ValueError(f"{text!r} is not a duration: write a number and a unit, such as 90s, 45m, 1.5h, 1h30m or 3d")
    return total


def format_duration(duration: float) -> str:
    """Return a duration in seconds as text, in the largest unit that gives a whole number."""
    for unit, size in reversed(_UNITS.items()):
        if duration >= size and duration % size == 0:
            return f"{duration / size:.0f}{unit}"
    return f"{duration!r}s"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION, "examples": ["45m", "1.5h"]}),
]
"""A duration in seconds, written with a unit, as in `45m`."""

Updates = Annotated[int, Field(ge=1)]
Every = Updates | Duration
"""An interval: a number of updates, or a duration."""

Parallel = Literal["ddp", "fsdp", "hsdp"]

Factor = Literal["paper", "warmup", "inverse_sqrt", "cosine", "linear"]


class LossConfig(Config):
    """The loss function: label smoothing and R-Drop."""

    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0, description="epsilon of label smoothing (section 5.4)")
    spread: Literal["all", "others"] = Field(
        "all",
        description="spread of epsilon: all = epsilon / V for every token (Szegedy et al., torch, Hugging Face); "
        "others = epsilon / (V - 1) for every token except the true token (tensor2tensor, fairseq)",
    )
    r_drop: float = Field(
        0.0, ge=0.0, description="weight of the R-Drop loss (Liang et al., 2021); above 0: two passes per batch"
    )


class GuidedAlignmentConfig(Config):
    """Training of one cross-attention head towards word links (Chen et al., 2016; Garg et al., 2019).

    The links come from the file that a corpus names as `links`, or are learned from the pairs before training.
    """

    weight: float = Field(0.0, ge=0.0, description="weight of the loss per linked token; 0: off; 0.05 is usual")
    layer: int | None = Field(None, description="decoder layer, from 0; -1: the last; null: the second-last, if any")
    head: int = Field(0, ge=0, description="head of the layer, from 0")
    rows: Literal["written", "read"] = Field(
        "read", description="the step that aligns a token: where it is written, or the next, where it is read"
    )

    def layer_of(self, num_layers: int) -> int:
        """Return the number of the layer in a decoder with this number of layers."""
        return max(0, num_layers - 2) if self.layer is None else self.layer % num_layers


class OptimizerConfig(Config):
    """Hyperparameters of Adam; the defaults are those of the paper (section 5.3)."""

    beta1: float = Field(0.9, ge=0.0, lt=1.0, description="decay rate of the first moment")
    beta2: float = Field(0.98, ge=0.0, lt=1.0, description="decay rate of the second moment")
    epsilon: float = Field(1e-9, gt=0.0, description="constant added to the denominator for stability")
    weight_decay: float = Field(0.0, ge=0.0, description="decoupled weight decay, on matrices only; none in the paper")
    clip: float | None = Field(None, gt=0.0, description="maximum gradient norm; null (as in the paper): no clipping")


class ScheduleConfig(Config):
    """The learning rate: `rate` times the product of named functions of the update number."""

    rate: float = Field(1.0, gt=0.0, description="base rate, multiplied by the factors; with warmup, the peak rate")
    factors: tuple[Factor, ...] = Field(
        ("paper",),
        min_length=1,
        description="factors at update n: paper: d_model^-.5 min(n^-.5, n warmup^-1.5); warmup: linear increase to 1; "
        "inverse_sqrt: decrease from 1 after warm-up; cosine, linear: decrease to `floor` at the last update",
    )
    warmup: int = Field(4000, ge=0, description="number of warm-up updates")
    floor: float = Field(0.0, ge=0.0, lt=1.0, description="final value of the cosine and linear factors (peak: 1)")

    @model_validator(mode="after")
    def _fits(self) -> "ScheduleConfig":
        if "paper" in self.factors and len(self.factors) > 1:
            others = ", ".join(factor for factor in self.factors if factor != "paper")
            raise ValueError(f"the factor `paper` is a complete schedule: leave out {others or 'the duplicate'}")
        if len(set(self.factors)) < len(self.factors):
            raise ValueError(f"duplicate factor in {', '.join(self.factors)}: name each factor once")
        if {"paper", "inverse_sqrt"} & set(self.factors) and self.warmup == 0:
            raise ValueError("the factors `paper` and `inverse_sqrt` need a warm-up: set warmup to 1 or more")
        return self


StopMetric = Literal["loss", "bleu", "chrf", "chrf++", "ter", "per", "wer", "exact", "f1", "well-formed"]
"""The loss of the validation pairs, or a metric of their translations."""

LOWER_IS_BETTER: Final = frozenset(("loss", "ter", "per", "wer"))


class StopConfig(Config):
    """The conditions that end training."""

    updates: Updates = Field(100_000, description="maximum number of updates, at which cosine and linear schedules end")
    time: Duration | None = Field(None, description="maximum training time; slow machines plan fewer updates")
    metric: StopMetric = Field(
        "bleu", description="metric that selects the best weights: loss, bleu, chrf or one of validation.metrics"
    )
    patience: int | None = Field(None, ge=1, description="stop after this many validations without a new best")


class GuardConfig(Config):
    """Rules for leaving out updates, so that a bad batch does not damage the weights."""

    spike: float | None = Field(10.0, gt=1.0, description="leave out updates above this multiple of the median loss")
    most: int = Field(20, ge=0, description="maximum number of updates left out in a row; more end the run")


class SnapshotConfig(Config):
    """Weight snapshots saved while training, to be averaged at the end (section 6.1 of the paper)."""

    every: Every | None = Field(None, description="updates or time between snapshots; 10m in the paper; null: none")
    average: int = Field(5, ge=2, description="number of snapshots to average; in the paper 5 for base, 20 for big")


class CheckpointConfig(Config):
    """Checkpoints of the training state, from which the same command resumes a run."""

    every: Literal["auto"] | Every | None = Field(
        "auto",
        description="updates or time between checkpoints; auto: the first within a minute, then at least every 10 "
        "minutes and ten times per run; null: only on a signal",
    )
    keep: int = Field(2, ge=1, description="number of checkpoints to keep, in case the newest is damaged")


class TrainingConfig(Config):
    """The training section of a recipe."""

    batch: BatchConfig = Field(BatchConfig(), description="batch size, and sampling of corpora")
    batches_per_update: int = Field(1, ge=1, description="batches whose gradients are summed for one update")
    pieces: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="microbatches per batch, doubled when memory runs out; auto tries the longest batch first"
    )
    subword_sampling: float = Field(0.0, ge=0.0, lt=1.0, description="rate of BPE-dropout or unigram sampling; 0: off")
    augment: AugmentConfig = Field(AugmentConfig(), description="pairs to add to the training pairs; none by default")
    loss: LossConfig = Field(LossConfig(), description="the loss function")
    guided_alignment: GuidedAlignmentConfig = Field(
        GuidedAlignmentConfig(), description="a head that is trained to align words; none by default"
    )
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="hyperparameters of Adam")
    schedule: ScheduleConfig = Field(ScheduleConfig(), description="the learning rate schedule")
    stop: StopConfig = Field(StopConfig(), description="conditions that end training")
    validate_every: Every = Field(1000, description="updates or time between two validations")
    snapshots: SnapshotConfig = Field(SnapshotConfig(), description="weights to average at the end")
    checkpoints: CheckpointConfig = Field(CheckpointConfig(), description="saved training states to resume from")
    ema: float | None = Field(None, gt=0.0, lt=1.0, description="decay of the moving average of weights; null: none")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="precision of matrix products; auto: bfloat16 if the device is fast in bfloat16, else float32",
    )
    parallel: Parallel = Field(
        "ddp",
        description="ddp: each process has the whole model; fsdp: each process has a shard, for large models; hsdp: the"
        " processes of a machine share the model, and each machine has the whole model",
    )
    compile: bool = Field(
        False, description="compile the layers with torch.compile: minutes at the start, then faster on a GPU"
    )
    recompute: bool = Field(
        False, description="compute the layers again in the backward pass: less memory, a third more time"
    )
    loader_workers: Literal["auto"] | Annotated[int, Field(ge=0)] = Field(
        "auto",
        description="worker processes that prefetch batches, per training process; auto: one for an accelerator, none "
        "for a CPU, whose cores are needed for training",
    )
    guard: GuardConfig = Field(GuardConfig(), description="rules for leaving out bad updates")
    log_every: int = Field(50, ge=1, description="updates between two log entries")


def resolve_precision(config: TrainingConfig, fast_in_bfloat16: bool) -> TrainingConfig:
    """Return the config with `precision: auto` replaced by the faster precision, bfloat16 or float32."""
    if config.precision != "auto":
        return config
    return config.model_copy(update={"precision": "bfloat16" if fast_in_bfloat16 else "float32"})
