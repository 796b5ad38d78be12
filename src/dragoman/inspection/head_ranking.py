"""The ranking of all heads of a model by alignment error rate, as data. This module does not import torch."""

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from dragoman.alignment.error_rate import draw_sentences
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.config import Config
from dragoman.inspection.head_search import AlignmentGrid

ENOUGH: Final = 50
"""Number of sentence pairs below which many heads tie by chance."""


class RankedHead(Config):
    """A head, or the mean of a layer's heads, with its scores; rates are from 0 to 1."""

    head: AlignmentHead
    layer: int = Field(description="number of the layer, from 0, as --layer takes it")
    aer: float = Field(description="alignment error rate; lower is better")
    low: float = Field(description="lower end of the 95 % interval of the error rate")
    high: float = Field(description="upper end of the 95 % interval of the error rate")
    precision: float
    recall: float


class HeadRanking(Config):
    """All heads of a model with both row conventions and both measures, lowest error rate first."""

    heads: tuple[RankedHead, ...]
    num_pairs: int = Field(description="number of sentence pairs that the heads were measured on")
    is_small: bool = Field(description="true if the pairs are too few to compare heads")
    held_out_aer: float | None = Field(
        description="error rate of heads chosen on one half and scored on the other; null for a single pair"
    )

    def tied(self) -> tuple[RankedHead, ...]:
        """Return the heads whose error rate is that of the best, the best first."""
        return tuple(ranked for ranked in self.heads if ranked.aer == self.heads[0].aer)


def rank_heads(grid: AlignmentGrid, layers: Sequence[str]) -> HeadRanking:
    """Return the ranking of a grid; `layers` are the names of all cross-attention layers, lowest first."""
    ranked = grid.ranked()
    num_pairs = len(ranked[0][1].counts)
    draws = draw_sentences(num_pairs)
    heads = []
    for head, score in ranked:
        low, high = score.interval(draws=draws)
        rates = {"aer": score.aer, "low": low, "high": high, "precision": score.precision, "recall": score.recall}
        heads.append(RankedHead(head=head, layer=layers.index(head.layer), **rates))
    return HeadRanking(
        heads=tuple(heads),
        num_pairs=num_pairs,
        is_small=num_pairs < ENOUGH,
        held_out_aer=grid.held_out_aer() if num_pairs > 1 else None,
    )
