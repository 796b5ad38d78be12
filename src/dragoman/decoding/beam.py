"""One step of beam search: the live hypotheses, and the decision which of their extensions live, end or fall.

Apart from the loop (search.py), so that the decision can be read, tested and replaced by itself.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.data.vocab import EOS

DEAD = float("-inf")
"""The total of an empty place in a beam."""


@dataclass(frozen=True)
class Decision:
    """The best extensions of each source's beam, best first, and what becomes of them."""

    parent: Int[Tensor, "sources candidates"]
    """The place in the beam that each one extends."""
    token: Int[Tensor, "sources candidates"]
    total: Float[Tensor, "sources candidates"]
    """Log-probability of the whole hypothesis with the token."""
    log_probability: Float[Tensor, "sources candidates"]
    """Of the token alone."""
    ends: Bool[Tensor, "sources candidates"]
    """Finished hypotheses: EOS among the best `beam_size`."""
    live: Int[Tensor, "sources beam"]
    """Which candidates make the next beam."""


def decide(
    total: Float[Tensor, "sources beam"], log_probabilities: Float[Tensor, "sources beam vocabulary"], beam_size: int
) -> Decision:
    """Choose among all extensions of all live hypotheses.

    An ending counts only if it is among the `beam_size` best extensions, so that with a beam of one a hypothesis ends
    when the EOS is the most probable token. Its place goes to the next best extension that does not end: since each
    parent ends at most once, twice the beam always holds enough.
    """
    vocabulary = log_probabilities.shape[-1]
    extended = (total[:, :, None] + log_probabilities).flatten(1)  # [sources, beam * vocabulary]
    totals, index = extended.topk(min(2 * beam_size, extended.shape[1]), dim=1)
    token = index % vocabulary
    is_end = (token == EOS) & (totals > DEAD)
    among_best = torch.arange(totals.shape[1], device=totals.device) < beam_size
    # A stable sort that puts what does not end first keeps the best first within both groups.
    live = is_end.to(torch.int8).argsort(dim=1, stable=True)[:, : min(beam_size, totals.shape[1])]
    return Decision(
        parent=index // vocabulary,
        token=token,
        total=totals,
        log_probability=log_probabilities.flatten(1).gather(1, index),
        ends=is_end & among_best,
        live=live,
    )


@dataclass(frozen=True)
class Beam:
    """The live hypotheses of some sources after the same number of steps."""

    total: Float[Tensor, "sources beam"]
    tokens: Int[Tensor, "sources beam steps"]
    log_probabilities: Float[Tensor, "sources beam steps"]

    @classmethod
    def empty(cls, num_sources: int, device: torch.device) -> "Beam":
        """Before the first step: one hypothesis each, which has written nothing."""
        nothing = torch.zeros(num_sources, 1, 0, device=device)
        return Beam(torch.zeros(num_sources, 1, device=device), nothing.to(torch.int64), nothing)

    def survivors(self, decision: Decision) -> "Beam":
        """The beam after the decision. A place that only an ending could fill is dead."""
        live = decision.live
        token, total = decision.token.gather(1, live), decision.total.gather(1, live)
        parent = decision.parent.gather(1, live)[..., None].expand(-1, -1, self.tokens.shape[-1])
        last = decision.log_probability.gather(1, live)
        return Beam(
            total.masked_fill(token == EOS, DEAD),
            torch.cat([self.tokens.gather(1, parent), token[..., None]], dim=-1),
            torch.cat([self.log_probabilities.gather(1, parent), last[..., None]], dim=-1),
        )

    def extended(self, decision: Decision, source: int, candidate: int) -> tuple[list[int], list[float]]:
        """One candidate as a whole hypothesis: its tokens and their log-probabilities."""
        parent = decision.parent[source, candidate]
        tokens = [*self.tokens[source, parent].tolist(), int(decision.token[source, candidate])]
        last = float(decision.log_probability[source, candidate])
        return tokens, [*self.log_probabilities[source, parent].tolist(), last]

    def rows(self, decision: Decision, sources: Int[Tensor, " selected"]) -> Int[Tensor, " rows"]:
        """Which rows of the decoder's state the survivors of these sources extend."""
        parent = decision.parent.gather(1, decision.live)[sources]
        return (sources[:, None] * self.total.shape[1] + parent).flatten()

    def select(self, sources: Int[Tensor, " selected"]) -> "Beam":
        return Beam(self.total[sources], self.tokens[sources], self.log_probabilities[sources])
