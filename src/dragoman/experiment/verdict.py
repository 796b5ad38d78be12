"""The verdict at the end of a run: the BLEU score in words, and sample translations. Does not import torch."""

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from dragoman.experiment.autopilot import round_up_time
from dragoman.experiment.findings import NARROW_DOMAIN_PAIRS

T = TypeVar("T")

_WORDS: Final = (
    (5.0, "not usable"),
    (15.0, "the topic comes through, the meaning often not"),
    (25.0, "the gist comes through, with many errors"),
    (40.0, "understandable, with errors"),
    (60.0, "good"),
    (100.0, "very close to the references"),
)
"""What a BLEU score below each value usually means on text like the training text."""

_TOKENS: Final = (8e4, 2.2e5, 1.4e6, 2.0e6, 2.0e7)
_SCORES: Final = (0.8, 3.9, 24.6, 25.4, 35.9)
"""The BLEU of whole runs of a small model, by the number of tokens they read (docs/results.md)."""

_GOOD_BLEU: Final = 33.0
"""The score for which more time is advised."""

_MAX_FACTOR: Final = 20.0


def describe_bleu(bleu: float) -> str:
    """Return what a BLEU score on the validation pairs means, in words."""
    return next((words for limit, words in _WORDS if bleu < limit), _WORDS[-1][1])


def judge(bleu: float, is_still_improving: bool, time: float | None = None, num_pairs: int = 0) -> str:
    """Return the BLEU score on the validation pairs in words, and advice if the model is not good.

    `time` is the limit of the training time in seconds; None if the run has another limit.
    """
    words = describe_bleu(bleu)
    if bleu >= _WORDS[3][0]:
        return f"BLEU {bleu:.1f}: {words}"
    if not is_still_improving:
        advice = "it stopped improving: add pairs"
    elif time is None or num_pairs < NARROW_DOMAIN_PAIRS or bleu >= _GOOD_BLEU:
        advice = "it was still improving at the end: train longer"
    else:
        factor = min(_MAX_FACTOR, _num_tokens(_GOOD_BLEU) / _num_tokens(bleu))
        advice = f"with --time {round_up_time(time * factor)} expect about {expect_bleu(bleu, factor):.0f}"
    return f"BLEU {bleu:.1f}: {words}; {advice}"


def expect_bleu(bleu: float, factor: float) -> float:
    """Return the BLEU to expect from a run `factor` times as long, if scores rise as in the measured runs."""
    return float(np.interp(np.log(_num_tokens(bleu) * factor), np.log(_TOKENS), _SCORES))


def _num_tokens(bleu: float) -> float:
    """Return the number of tokens of a measured run with this BLEU; in between, BLEU grows with the logarithm."""
    return float(np.exp(np.interp(bleu, _SCORES, np.log(_TOKENS))))


def spread(items: Sequence[T]) -> list[T]:
    """Return up to three items, from the first quarter, the middle and the last quarter."""
    size = len(items)
    return [items[index] for index in dict.fromkeys((size // 4, size // 2, 3 * size // 4)) if index < size]
