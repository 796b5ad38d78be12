"""Attention of a recurrent decoder over the whole source, or over a window of positions (Luong et al., 2015)."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.attention.score import (
    ActivatedGeneral,
    Additive,
    BiasedGeneral,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    Score,
)
from dragoman.models.config import RecurrentConfig

Query = Float[Tensor, "rows d_model"]
Visible = Bool[Tensor, "rows 1 1 source"]


@dataclass(frozen=True)
class PreparedSource:
    """The keys, values and mask of the source, computed once for all decoding steps."""

    key: Float[Tensor, "rows 1 source d_prepared"]
    value: Float[Tensor, "rows 1 source d_model"]
    visible: Visible
    length: Int[Tensor, " rows"]
    """The length of each source in tokens, without padding."""
    reweight: Float[Tensor, "rows 1 1 source"] | None = None
    """Factors that local attention applies to the weights after the softmax."""

    def select(self, rows: Int[Tensor, " rows"]) -> "PreparedSource":
        """Return the sources of the rows with these indices, in this order."""
        parts = (self.key, self.value, self.visible, self.length)
        return PreparedSource(*(part.index_select(0, rows) for part in parts))

    def near(self, centre: Int[Tensor, " rows"], neighbours: int) -> "PreparedSource":
        """Return the source with only the positions around `centre` visible, for local attention."""
        near = mask.window(centre[:, None, None], self.visible.shape[-1], neighbours)
        return replace(self, visible=self.visible & near)


class RecurrentAttention(nn.Module):
    """Single-head attention of a decoder state over the source positions."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.attend = Attend(_score(config))

    def remember(self, hidden: Float[Tensor, "rows source d_model"], visible: Visible) -> PreparedSource:
        """Compute the keys, values and mask of the source, once for all decoding steps."""
        key = self.attend.score.prepare(hidden)
        return PreparedSource(key[:, None], hidden[:, None], visible, visible.sum(dim=(1, 2, 3)))  # one head

    def forward(self, query: Query, seen: PreparedSource) -> Float[Tensor, "rows d_model"]:
        """Return the context vector of each row: the weighted sum of the source positions."""
        context: Tensor = self.attend(query[:, None, None], seen.key, seen.value, seen.visible, reweight=seen.reweight)
        return context.flatten(1)  # from [rows, 1 head, 1 query, d_model]


def monotonic(seen: PreparedSource, position: int, neighbours: int) -> PreparedSource:
    """Return the source with only the local-m window visible, which is centred at the target position: p_t = t.

    At positions more than `neighbours` after the end of the source, nothing is visible and the context is zero.
    """
    return seen.near(torch.full_like(seen.length, position), neighbours)


class Predictive(nn.Module):
    """Luong's local-p attention: predict the centre p_t of the window, and weight positions by a Gaussian.

    p_t = S sigmoid(v . tanh(W h_t)) for a source of S tokens. The Gaussian has mean p_t and standard deviation D/2; the
    window of D positions on either side is centred at the position nearest to p_t. The weights are not normalised
    again.
    """

    def __init__(self, d_model: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.hidden = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, 1, bias=False)

    def forward(self, query: Query, seen: PreparedSource) -> PreparedSource:
        share = torch.sigmoid(self.value(torch.tanh(self.hidden(query))).squeeze(-1))
        centre = seen.length * share
        position = torch.arange(seen.visible.shape[-1], device=centre.device)
        distance = (position - centre[:, None]) / (self.neighbours / 2)
        gaussian = torch.exp(-0.5 * distance.square())
        return replace(seen.near(centre.round().long(), self.neighbours), reweight=gaussian[:, None, None])


def _score(config: RecurrentConfig) -> Score:
    width, d_score = config.d_model, config.d_score or config.d_model
    match config.score:
        case "additive":
            return Additive(width, width, d_score)
        case "dot":
            return Dot()
        case "general":
            return General(width, width)
        case "biased-general":
            return BiasedGeneral(width, width)
        case "activated-general":
            return ActivatedGeneral(width, width)
        case "cosine":
            return Cosine()
        case "location":
            return Location(width, config.max_locations)
        case "concat":
            return Concat(width, width, d_score)
