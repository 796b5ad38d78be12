"""How a model is trained: everything that decides which weights come out. No torch here: a recipe is read without it.

The defaults are the paper's (section 5); what later work added is off until asked for.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from dragoman.config import Config
from dragoman.data.order import BatchConfig

CHECKPOINTS: Final = "checkpoints"
"""The folder of a run that holds them. While it holds one, the run is not finished."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PARTS = "".join(rf"(\d+(\.\d+)?\s*{unit})?" for unit in reversed(_UNITS))
_DURATION = rf"^(?=\d){_PARTS}$"
"""Each unit once, the largest first."""

_NO_TIME = "is not a time: write a number and a unit, such as 90s, 45m, 1.5h, 1h30m or 3d"


def seconds(text: str) -> float:
    """`90s`, `45m`, `1.5h`, `1h30m`, `3d` in seconds."""
    parts = re.findall(r"([\d.]+)\s*([smhd])", text) if re.search(_DURATION, text.strip()) else []
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not total:
        raise ValueError(f"{text!r} {_NO_TIME}")
    return total


def _parsed(value: Any) -> float:
    if isinstance(value, str):
        return seconds(value)
    raise ValueError(f"{value!r} {_NO_TIME}")


def spelled(duration: float) -> str:
    """Seconds as one would write them: the largest unit that keeps the number whole."""
    for unit, size in reversed(_UNITS.items()):
        if duration >= size and duration % size == 0:
            return f"{duration / size:.0f}{unit}"
    return f"{duration!r}s"


Duration = Annotated[
    float,
    BeforeValidator(_parsed),
    PlainSerializer(spelled, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION, "examples": ["45m", "1.5h"]}),
]
"""A time, written with its unit."""

Updates = Annotated[int, Field(ge=1)]
Every = Updates | Duration
"""How often: a number of updates, or a time."""

Parallel = Literal["ddp", "fsdp"]

Factor = Literal["paper", "warmup", "inverse_sqrt", "cosine", "linear"]


class LossConfig(Config):
    """What is minimised."""

    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0, description="share of the truth given away (section 5.4)")
    spread: Literal["all", "others"] = Field(
        "all",
        description="to whom: all = epsilon / V to every token, the true one too (Szegedy, torch, Hugging Face); "
        "others = epsilon / (V - 1) to all but the true one (tensor2tensor, fairseq)",
    )
    r_drop: float = Field(
        0.0, ge=0.0, description="weight of R-Drop (Liang et al., 2021); above 0 each batch is read twice"
    )


class OptimizerConfig(Config):
    """Adam, with the paper's numbers (section 5.3)."""

    beta1: float = Field(0.9, ge=0.0, lt=1.0, description="memory of the gradient's mean")
    beta2: float = Field(0.98, ge=0.0, lt=1.0, description="memory of the gradient's square")
    epsilon: float = Field(1e-9, gt=0.0, description="added to the root of the square")
    weight_decay: float = Field(0.0, ge=0.0, description="decoupled, on matrices only; the paper mentions none")
    clip: float | None = Field(None, gt=0.0, description="the longest gradient let through; the paper mentions none")


class ScheduleConfig(Config):
    """The learning rate: `rate` times a product of named factors of the update's number."""

    rate: float = Field(1.0, gt=0.0, description="what the factors are multiplied with: with warmup, the highest rate")
    factors: tuple[Factor, ...] = Field(
        ("paper",),
        min_length=1,
        description="paper: d_model^-.5 min(n^-.5, n warmup^-1.5); warmup: up to 1 in a line; inverse_sqrt: down from "
        "1 after warm-up; cosine, linear: down to `floor` at the last update",
    )
    warmup: int = Field(4000, ge=0, description="updates until the rate is highest")
    floor: float = Field(0.0, ge=0.0, lt=1.0, description="where cosine and linear end, as a share of their height")

    @model_validator(mode="after")
    def _fits(self) -> "ScheduleConfig":
        if "paper" in self.factors and len(self.factors) > 1:
            others = ", ".join(factor for factor in self.factors if factor != "paper")
            raise ValueError(f"the factor paper is a whole schedule: leave out {others or 'its repetition'}")
        if len(set(self.factors)) < len(self.factors):
            raise ValueError(f"a factor is named twice in {', '.join(self.factors)}")
        if {"paper", "inverse_sqrt"} & set(self.factors) and self.warmup == 0:
            raise ValueError("paper and inverse_sqrt need a warmup of 1 or more: it is what they are measured by")
        return self


class StopConfig(Config):
    """When it is enough."""

    updates: Updates = Field(100_000, description="updates in all, which cosine and linear schedules end with")
    time: Duration | None = Field(
        None, description="at most this long; a run that would take longer makes fewer updates, and says so"
    )
    metric: Literal["loss", "bleu", "chrf"] = Field("bleu", description="what makes a validation the best so far")
    patience: int | None = Field(None, ge=1, description="stop after so many validations without a new best")


class GuardConfig(Config):
    """A bad batch never touches the weights."""

    spike: float | None = Field(
        10.0, gt=1.0, description="an update whose loss is this many times the usual one is left out; not finite always"
    )
    most: int = Field(20, ge=0, description="stop when more updates than this were left out in a row")


class SnapshotConfig(Config):
    """Weights put aside while training, to be averaged at the end (section 6.1)."""

    every: Every | None = Field(None, description="updates or time between them; the paper's is 10m")
    average: int = Field(
        5, ge=2, description="how many of the last ones are averaged: the paper's 5 for base, 20 for big"
    )


class CheckpointConfig(Config):
    """The whole state of a run, saved so that the same command goes on from it."""

    every: Every | None = Field(
        "10m", validate_default=True, description="updates or time between them; null: only when a signal asks for one"
    )
    keep: int = Field(2, ge=1, description="how many of the last ones are kept: should one be damaged, another is used")


class TrainingConfig(Config):
    """One training."""

    batch: BatchConfig = Field(BatchConfig(), description="how pairs are gathered into batches")
    batches_per_update: int = Field(1, ge=1, description="batches whose gradients are summed for one update")
    pieces: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        1,
        description="into which each batch is cut for lack of memory, doubled by itself where an allocation fails; "
        "auto tries the longest batch before the first update",
    )
    subword_sampling: float = Field(
        0.0, ge=0.0, lt=1.0, description="BPE-dropout, or sampling of a unigram vocabulary: its rate"
    )
    loss: LossConfig = Field(LossConfig(), description="what is minimised")
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="Adam's numbers")
    schedule: ScheduleConfig = Field(ScheduleConfig(), description="the learning rate")
    stop: StopConfig = Field(StopConfig(), description="when it is enough")
    validate_every: Every = Field(1000, description="updates or time between two validations")
    snapshots: SnapshotConfig = Field(SnapshotConfig(), description="weights to be averaged")
    checkpoints: CheckpointConfig = Field(CheckpointConfig(), description="what a run that was killed goes on from")
    ema: float | None = Field(
        None,
        gt=0.0,
        lt=1.0,
        description="decay of a moving average of the weights, validated and kept in their place",
    )
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the matrix products")
    parallel: Parallel = Field(
        "ddp",
        description="with several processes: ddp, each has the whole model; fsdp, each keeps a share of its weights "
        "and gathers them when they are needed, for models that do not fit",
    )
    guard: GuardConfig = Field(GuardConfig(), description="what is done about bad batches")
    log_every: int = Field(50, ge=1, description="updates between two lines of the log")
