"""Sampling: a target drawn from the model, and edits of the next-token distribution that shape the draw.

    sample(model, source, seeds, edits=[temperature(0.8), top_p(0.9)])

An edit takes log-probabilities and gives new ones; what it strikes out is -inf. They act in the order given and need
not leave normalised numbers. What a hypothesis reports is always the model's own log-probability.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.rules import FORBIDDEN, Rules
from dragoman.decoding.walk import walk
from dragoman.models.seq2seq import Seq2Seq

LogProbabilities = Float[Tensor, "rows vocabulary"]
Edit = Callable[[LogProbabilities], LogProbabilities]


def temperature(degree: float) -> Edit:
    """Below 1 the probable gets more probable, above 1 less."""
    if degree <= 0.0:
        raise ValueError(f"a temperature is above 0, not {degree}; for the most probable token use greedy_search")
    return lambda scores: scores / degree


def top_k(k: int) -> Edit:
    """Only the k most probable tokens; ties with the k-th stay."""
    if k < 1:
        raise ValueError(f"top_k keeps at least 1 token, not {k}")

    def edit(scores: LogProbabilities) -> LogProbabilities:
        threshold = scores.topk(min(k, scores.shape[-1]), dim=-1).values[:, -1:]
        return scores.masked_fill(scores < threshold, FORBIDDEN)

    return edit


def top_p(p: float) -> Edit:
    """Only the most probable tokens that together reach probability p: the nucleus (Holtzman et al., 2020)."""
    if not 0.0 < p <= 1.0:
        raise ValueError(f"top_p is above 0 and at most 1, not {p}")
    if p == 1.0:
        return lambda scores: scores

    def edit(scores: LogProbabilities) -> LogProbabilities:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        # Over a large vocabulary the rounding of float32 adds up to more than the last tokens have.
        probability = ranked.double().softmax(dim=-1)
        before = probability.cumsum(dim=-1) - probability  # what the more probable tokens reach without this one
        outside = torch.zeros_like(scores, dtype=torch.bool).scatter(1, order, before >= p)
        return scores.masked_fill(outside, FORBIDDEN)

    return edit


def sample(
    model: Seq2Seq[Any, Any],
    source: Int[Tensor, "rows source"],
    seeds: Sequence[int],
    edits: Sequence[Edit] = (),
    options: SearchOptions | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[Hypothesis]:
    """One draw for each source, decided by its own seed: the same whatever else is in the batch."""
    if len(seeds) != len(source):
        raise ValueError(f"{len(seeds)} seeds for {len(source)} sources: give one for each")
    options = options or SearchOptions()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(log_probabilities: LogProbabilities) -> Int[Tensor, " rows"]:
        for edit in edits:
            log_probabilities = edit(log_probabilities)
        lots = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
        return _draw(log_probabilities, lots.to(source.device))

    return walk(model, source, Rules.of(options, source, prefixes, model.max_target), options.penalty, choose)


def _draw(scores: LogProbabilities, lots: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """The token on which each lot, a number from [0, 1), falls when the tokens share that stretch by probability."""
    reach = scores.double().softmax(dim=-1).cumsum(dim=-1)
    return torch.searchsorted(reach, (lots * reach[:, -1])[:, None], right=True).squeeze(1)
