"""How a recurrent decoder looks at the source: once a step, at all of it or at a neighbourhood (Luong, 2015)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.attention.score import Additive, Concat, Dot, General, Score
from dragoman.models.config import RecurrentConfig

Asking = Float[Tensor, "rows d_model"]
Visible = Bool[Tensor, "rows 1 1 source"]


@dataclass(frozen=True)
class Seen:
    """A source in the form attention takes it: what depends on the source alone is computed once for all steps."""

    key: Float[Tensor, "rows 1 source d_prepared"]
    value: Float[Tensor, "rows 1 source d_model"]
    visible: Visible
    length: Int[Tensor, " rows"]
    """How many tokens of each source are real."""

    def select(self, rows: Int[Tensor, " rows"]) -> "Seen":
        """The sources of these rows, in this order."""
        return Seen(*(part.index_select(0, rows) for part in (self.key, self.value, self.visible, self.length)))


class Neighbourhood(NamedTuple):
    """Where local attention looks."""

    visible: Visible
    reweight: Float[Tensor, "rows 1 1 source"] | None = None
    """What the weights are multiplied by after the softmax."""


class Attention(nn.Module):
    """The source's positions mixed by how well they answer a state of the decoder."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.attend = Attend(_score(config))

    def remember(self, hidden: Float[Tensor, "rows source d_model"], visible: Visible) -> Seen:
        """The source, ready to be asked about at every step."""
        key = self.attend.score.prepare(hidden)
        return Seen(key[:, None], hidden[:, None], visible, visible.sum(dim=(1, 2, 3)))  # one head

    def forward(self, asking: Asking, seen: Seen, near: Neighbourhood | None = None) -> Float[Tensor, "rows d_model"]:
        """The context vector. Without `near`, attention is global."""
        look = near or Neighbourhood(seen.visible)
        context: Tensor = self.attend(
            asking[:, None, None], seen.key, seen.value, look.visible, reweight=look.reweight
        )  # [rows, 1 head, 1 query, d_model]
        return context.flatten(1)


def monotonic(seen: Seen, position: int, neighbours: int) -> Neighbourhood:
    """local-m: p_t = t, as if source and target ran side by side.

    A target that outruns its source by more than `neighbours` sees nothing, and its context is zero.
    """
    centre = torch.full_like(seen.length, position)
    return Neighbourhood(_window(seen, centre, neighbours))


class Predictive(nn.Module):
    """local-p: p_t = S sigmoid(v . tanh(W h_t)) in a source of S tokens, and a Gaussian that favours what is near it.

    The Gaussian, of standard deviation D/2, has its top at p_t itself; the window of D positions on either side stands
    around the position nearest to p_t. The weights are not normalised again.
    """

    def __init__(self, d_model: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.hidden = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, 1, bias=False)

    def forward(self, asking: Asking, seen: Seen) -> Neighbourhood:
        share = torch.sigmoid(self.value(torch.tanh(self.hidden(asking))).squeeze(-1))
        centre = seen.length * share
        position = torch.arange(seen.visible.shape[-1], device=centre.device)
        distance = (position - centre[:, None]) / (self.neighbours / 2)
        gaussian = torch.exp(-0.5 * distance.square())
        return Neighbourhood(_window(seen, centre.round().long(), self.neighbours), gaussian[:, None, None])


def _window(seen: Seen, centre: Int[Tensor, " rows"], neighbours: int) -> Visible:
    near = mask.window(centre[:, None, None], seen.visible.shape[-1], neighbours)
    return seen.visible & near


def _score(config: RecurrentConfig) -> Score:
    width, d_score = config.d_model, config.d_score or config.d_model
    match config.score:
        case "additive":
            return Additive(width, width, d_score)
        case "dot":
            return Dot()
        case "general":
            return General(width, width)
        case "concat":
            return Concat(width, width, d_score)
