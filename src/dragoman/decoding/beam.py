"""One step of beam search: which extensions of the live hypotheses stay live, end or are dropped.

The loop is in search.py, so that this step can be read, tested and replaced separately.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.text.vocab import EOS

DEAD = float("-inf")
"""The total log-probability of an empty slot in a beam."""


@dataclass(frozen=True)
class Decision:
    """The candidates of each source, best first: extensions of live hypotheses, and which of them end or stay live."""

    parent: Int[Tensor, "sources candidates"]
    """The index in the beam of the hypothesis that each candidate extends."""
    token: Int[Tensor, "sources candidates"]
    total: Float[Tensor, "sources candidates"]
    """Log-probability of the whole hypothesis, including the token."""
    log_probability: Float[Tensor, "sources candidates"]
    """Log-probability of the token alone."""
    ends: Bool[Tensor, "sources candidates"]
    """Finished hypotheses: EOS among the best `beam_size`."""
    live: Int[Tensor, "sources beam"]
    """Indices of the candidates that form the next beam."""


def decide(
    total: Float[Tensor, "sources beam"], log_probabilities: Float[Tensor, "sources beam vocabulary"], beam_size: int
) -> Decision:
    """Choose the best extensions of all live hypotheses, for each source.

    A hypothesis ends only if EOS is among the `beam_size` best extensions: with a beam of one, when EOS is the most
    probable token. The next best extension without EOS takes the slot of an ended hypothesis: each parent ends at most
    once, so 2 * beam_size candidates are always enough.
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
    """The live hypotheses of all sources in a batch, all with the same number of tokens."""

    total: Float[Tensor, "sources beam"]
    tokens: Int[Tensor, "sources beam steps"]
    log_probabilities: Float[Tensor, "sources beam steps"]

    @classmethod
    def empty(cls, num_sources: int, device: torch.device) -> "Beam":
        """Return the beam before the first step: one empty hypothesis per source."""
        nothing = torch.zeros(num_sources, 1, 0, device=device)
        return Beam(torch.zeros(num_sources, 1, device=device), nothing.to(torch.int64), nothing)

    def survivors(self, decision: Decision) -> "Beam":
        """Return the next beam: the live candidates of the decision.

        A slot for which only an ended hypothesis is left gets the total log-probability -inf.
        """
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
        """Return the tokens of a candidate's whole hypothesis, and the log-probability of each token."""
        parent = decision.parent[source, candidate]
        tokens = [*self.tokens[source, parent].tolist(), int(decision.token[source, candidate])]
        last = float(decision.log_probability[source, candidate])
        return tokens, [*self.log_probabilities[source, parent].tolist(), last]

    def rows(self, decision: Decision, sources: Int[Tensor, " selected"]) -> Int[Tensor, " rows"]:
        """Return the decoder-state row that each live candidate of the selected sources extends."""
        parent = decision.parent.gather(1, decision.live)[sources]
        return (sources[:, None] * self.total.shape[1] + parent).flatten()

    def select(self, sources: Int[Tensor, " selected"]) -> "Beam":
        return Beam(self.total[sources], self.tokens[sources], self.log_probabilities[sources])
