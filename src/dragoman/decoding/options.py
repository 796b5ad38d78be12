"""Options of search, sampling and engines, the same for every engine. Does not import torch."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.decoding.checks import check_choice, check_int
from dragoman.decoding.penalty import Penalty
from dragoman.device import AUTO, check_device

EngineName = Literal["auto", "ctranslate2", "torch"]

Compute = Literal["float32", "int16", "int8", "float16"]
"""The compute type of matrix products in CTranslate2. float32 gives the results of torch in any batch; the others are
faster, and their results may depend on the batch. float16 is for GPUs, int16 for CPUs."""

MOST_HYPOTHESES: Final = 1_000
"""The largest beam. The time of a search grows with the beam, and large beams find nothing better."""


class LengthLimit(Config):
    """The maximum output length: ratio * (source tokens) + extra. The paper uses the source length + 50."""

    ratio: float = Field(1.0, ge=0.0, description="output tokens for each source token")
    extra: int = Field(50, ge=0, description="tokens added to ratio * source tokens")

    def tokens(self, source_length: int) -> int:
        """Return the maximum output length for a source, at least 1. Both lengths include EOS."""
        return max(1, math.floor(self.ratio * source_length) + self.extra)


class SearchOptions(Config):
    """Options of beam search, the same for every engine. The defaults are the paper's (section 6.1)."""

    beam_size: int = Field(4, ge=1, description="hypotheses kept at each step")
    num_best: int = Field(1, ge=1, description="hypotheses returned for each source, best first")
    penalty: Penalty = Field(Penalty(), description="length penalty in the score of a hypothesis")
    max_length: LengthLimit = Field(LengthLimit(), description="maximum output length, where EOS is forced")
    min_length: int = Field(1, ge=1, description="minimum output length in tokens, EOS included")
    stop: Literal["safe", "count", "never"] = Field(
        "count",
        description="when the search of a source stops. count: as soon as beam_size hypotheses have ended, as in "
        "fairseq; safe: when no live hypothesis can still become one of the num_best, with the same result as never; "
        "never: only at the length limit. CTranslate2 always uses count",
    )

    @model_validator(mode="after")
    def _fits(self) -> "SearchOptions":
        if self.num_best > self.beam_size:
            raise ValueError(f"num_best {self.num_best} is more than beam_size {self.beam_size}: increase beam_size")
        return self

    def replace(self, beam_size: int | None = None, num_best: int | None = None) -> "SearchOptions":
        """Return a copy with another `beam_size` or `num_best`; None keeps the current value."""
        check_int("beam_size", beam_size, MOST_HYPOTHESES)
        check_int("num_best", num_best, MOST_HYPOTHESES)
        beam, best = beam_size or self.beam_size, num_best or self.num_best
        if best > beam:
            raise ValueError(f"num_best {best} is more than beam_size {beam}: give beam_size={best} or more")
        return self.model_copy(update={"beam_size": beam, "num_best": best})


class SamplingOptions(Config):
    """Options for sampling a translation instead of searching for the best one."""

    temperature: float = Field(1.0, gt=0.0, description="softmax temperature: below 1 favours probable tokens")
    top_k: int | None = Field(None, ge=1, description="sample from the k most probable tokens only")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="sample from the most probable tokens that sum to top_p")
    seed: int = Field(0, ge=0, description="seed of the random numbers")

    def seed_of(self, source: Sequence[int]) -> int:
        """Return the seed for a source, computed from its tokens and therefore independent of the batch."""
        key = f"{self.seed}:{' '.join(map(str, source))}"
        return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class EngineOptions:
    """The choice of inference engine and its options, validated on creation."""

    engine: EngineName = "auto"
    threads: int | None = None
    """The number of threads; None: one per core."""
    compute: Compute | None = None
    beam_size: int | None = None
    """The beam size; None: that of the model's search options."""
    device: str = AUTO
    """The device: `auto`, the CPU, or an accelerator by name."""

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, get_args(EngineName))
        check_choice("compute", self.compute, get_args(Compute))
        check_int("threads", self.threads)
        check_device(self.device)
        check_int("beam_size", self.beam_size, MOST_HYPOTHESES)
