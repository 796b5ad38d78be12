"""Names and text options of the metrics, in a module that recipes can import without sacreBLEU."""

from difflib import get_close_matches
from typing import Final, Literal, get_args

from pydantic import Field

from dragoman.config import Config

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "per", "wer", "exact", "f1", "well-formed"]
METRICS: Final[tuple[MetricName, ...]] = get_args(MetricName)
TEXT_METRICS: Final = ("bleu", "chrf", "chrf++", "ter")
"""The metrics for sentences; the others are for lines of symbols, such as phonemes or linearised trees."""

DEFAULT_METRICS: Final[tuple[MetricName, ...]] = ("bleu", "chrf", "ter")

METRIC_TITLES: Final[dict[MetricName, str]] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "chrf++": "chrF++",
    "ter": "TER",
    "per": "PER",
    "wer": "WER",
    "exact": "exact",
    "f1": "F1",
    "well-formed": "well-formed",
}
"""The names of the metrics in reports."""

VALIDATION_METRICS: Final[tuple[MetricName, ...]] = ("bleu", "chrf")
"""The metrics of every validation; a recipe can add others."""


class MetricOptions(Config):
    """Options for the text to score; the defaults are those of sacreBLEU."""

    tokenised: bool = Field(False, description="hypotheses and references are tokenised: BLEU does not tokenise again")
    lower_case: bool = Field(False, description="BLEU and chrF ignore case; TER always does")
    compounds: bool = Field(False, description="BLEU splits compounds at hyphens, as Vaswani et al. (2017) did")


def parse_metrics(text: str) -> tuple[MetricName, ...]:
    """Return the metrics in a comma-separated list such as `bleu,ter`, in the order of `METRICS`."""
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in METRICS:
            near = get_close_matches(name, METRICS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(METRICS)}"
            raise ValueError(f"unknown metric {name!r}: {hint}")
    return tuple(name for name in METRICS if name in names)
