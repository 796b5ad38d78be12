"""What is normal for a language pair: how long translations are, and how often they repeat their source."""

import math
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config

SPARE: Final = 10
"""Characters added to both lengths before they are compared: among short texts any ratio is normal ("ID",
"Identifikationsnummer")."""

NARROWEST: Final = math.log(3.0)
WIDEST_UNKNOWN: Final = math.log(6.0)
SIGMAS: Final = 7.0
ENOUGH: Final = 100
"""Fewer pairs say nothing of a language pair."""

COPIES: Final = 0.2
"""From this share of repeated sentences on, repeating the source is what the task is about."""

_LOWER_CASE_WORD = re.compile(r"(?<!\S)[\"'(«„“]?[^\W\d_A-Z]{2,}[.,;:!?)\"'»“”…]*(?!\S)")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Profile(Config):
    """Estimated from a sample; without one, wide enough for any two languages."""

    log_ratio: float = Field(0.0, description="log of target length over source length, in the middle")
    spread: float = Field(WIDEST_UNKNOWN, gt=0.0, description="how far from it a pair may be, to either side")
    identical: float = Field(0.0, ge=0.0, le=1.0, description="share of pairs whose target repeats a source sentence")
    num_pairs: int = Field(0, ge=0, description="pairs it was estimated from")


def estimate(source: pa.LargeStringArray, target: pa.LargeStringArray) -> Profile:
    """From a sample of mended pairs. Medians, so that even many bad pairs do not move it far."""
    filled = pc.and_(pc.greater(pc.binary_length(source), 0), pc.greater(pc.binary_length(target), 0))
    source, target = source.filter(filled), target.filter(filled)
    if len(source) < ENOUGH:
        return Profile(num_pairs=len(source))
    ratios = log_ratios(source, target)
    middle = float(np.median(ratios))
    sigma = 1.4826 * float(np.median(np.abs(ratios - middle)))
    identical = float(np.mean(repeated(source, target)))
    spread = max(NARROWEST, SIGMAS * sigma)
    return Profile(log_ratio=middle, spread=spread, identical=identical, num_pairs=len(source))


def log_ratios(source: pa.LargeStringArray, target: pa.LargeStringArray) -> Float64[ndarray, " pairs"]:
    """Log of target over source, in characters, with something to spare on both."""
    lengths = [pc.utf8_length(side).to_numpy(zero_copy_only=False) + SPARE for side in (source, target)]
    ratios: ndarray = np.log(lengths[1] / lengths[0])
    return ratios


def out_of_proportion(
    source: pa.LargeStringArray, target: pa.LargeStringArray, profile: Profile
) -> Bool[ndarray, " pairs"]:
    """Pairs whose lengths do not go together."""
    strange: ndarray = np.abs(log_ratios(source, target) - profile.log_ratio) > profile.spread
    return strange


def repeated(source: pa.LargeStringArray, target: pa.LargeStringArray) -> Bool[ndarray, " pairs"]:
    """Pairs whose target is its source, where that is more than a number, a name or a piece of code."""
    rows: ndarray = pc.equal(source, target).to_numpy(zero_copy_only=False).copy()
    rows[rows] = [is_sentence(text) for text in source.filter(pa.array(rows)).to_pylist()]
    return rows


def is_sentence(text: str) -> bool:
    """Three words that start small, or more than ten letters of a script that does without spaces or capitals."""
    return len(_LOWER_CASE_WORD.findall(text)) >= 3 or len(_UNSPACED.findall(text)) > 10
