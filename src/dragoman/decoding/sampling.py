"""Sampling from the model, with edits of the next-token distribution such as temperature and top-p.

    sample(model, source, seeds, edits=[temperature(0.8), top_p(0.9)])

An edit is a function from log-probabilities to new log-probabilities, with -inf for forbidden tokens. Edits are applied
in the given order and need not normalise. The log-probabilities of a hypothesis are always those of the model before
the edits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.decode_loop import decode
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.options import SamplingOptions, SearchOptions
from dragoman.decoding.rules import FORBIDDEN, Rules
from dragoman.device import widest_float
from dragoman.models.seq2seq import Seq2Seq

LogProbabilities = Float[Tensor, "rows vocabulary"]
Edit = Callable[[LogProbabilities], LogProbabilities]


def temperature(degree: float) -> Edit:
    """Return a function that divides log-probabilities by `degree`; a value above 1 flattens the distribution."""
    if degree <= 0.0:
        raise ValueError(f"temperature {degree} is not above 0: give a positive number, or use greedy_search")
    return lambda scores: scores / degree


def top_k(k: int) -> Edit:
    """Return a function that sets all but the k most probable tokens to -inf; ties with the k-th token stay."""
    if k < 1:
        raise ValueError(f"top_k {k} is below 1: give 1 or more")

    def edit(scores: LogProbabilities) -> LogProbabilities:
        threshold = scores.topk(min(k, scores.shape[-1]), dim=-1).values[:, -1:]
        return scores.masked_fill(scores < threshold, FORBIDDEN)

    return edit


def top_p(p: float) -> Edit:
    """Return a function that keeps the most probable tokens that together reach probability p.

    This is nucleus sampling (Holtzman et al., 2020).
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"top_p {p} is out of range: give a number above 0 and at most 1")
    if p == 1.0:
        return lambda scores: scores

    def edit(scores: LogProbabilities) -> LogProbabilities:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        # Over a large vocabulary the rounding of float32 adds up to more than the last tokens have.
        probability = ranked.to(widest_float(ranked.device)).softmax(dim=-1)
        before = probability.cumsum(dim=-1) - probability  # what the more probable tokens reach without this one
        outside = torch.zeros_like(scores, dtype=torch.bool).scatter(1, order, before >= p)
        return scores.masked_fill(outside, FORBIDDEN)

    return edit


def edits_of(sampling: SamplingOptions) -> list[Edit]:
    """Return the functions that apply temperature, top-k and top-p, in this order."""
    kept = [] if sampling.top_k is None else [top_k(sampling.top_k)]
    return [temperature(sampling.temperature), *kept, top_p(sampling.top_p)]


def sample(
    model: Seq2Seq[Any, Any],
    source: Int[Tensor, "rows source"],
    seeds: Sequence[int],
    edits: Sequence[Edit] = (),
    options: SearchOptions | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[Hypothesis]:
    """Sample one target per source with the source's seed, so that the batch does not affect the result."""
    if len(seeds) != len(source):
        raise ValueError(f"{len(seeds)} seeds for {len(source)} sources: give one seed per source")
    options = options or SearchOptions()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(log_probabilities: LogProbabilities) -> Int[Tensor, " rows"]:
        for edit in edits:
            log_probabilities = edit(log_probabilities)
        lots = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
        return _draw(log_probabilities, lots.to(source.device, widest_float(source.device)))

    return decode(model, source, Rules.of(options, source, prefixes, model.max_target), options.penalty, choose)


def _draw(scores: LogProbabilities, lots: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return one token per row by inverse transform sampling; `lots` are uniform numbers in [0, 1)."""
    reach = scores.to(lots.dtype).softmax(dim=-1).cumsum(dim=-1)
    return torch.searchsorted(reach, (lots * reach[:, -1])[:, None], right=True).squeeze(1)
