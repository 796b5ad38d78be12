"""Which tokens may come next, whatever the model thinks: specials, length limits, a forced prefix.

A forbidden token's log-probability becomes -inf; the others keep theirs, so that what a search reports for a target is
what scoring that target gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.data.vocab import BOS, EOS, PAD
from dragoman.decoding.options import SearchOptions

FORBIDDEN = float("-inf")


@dataclass(frozen=True)
class Rules:
    """The rules for each of some sources."""

    longest: Int[Tensor, " sources"]
    """Length limit of each output; its last token can only be EOS."""
    shortest: int
    """No EOS before this many tokens."""
    prefix: Int[Tensor, "sources prefix"]
    """How each output must begin; PAD where nothing is prescribed."""

    @classmethod
    def of(
        cls,
        options: SearchOptions,
        source: Int[Tensor, "sources source"],
        prefixes: Sequence[Sequence[int]] | None = None,
        model_limit: int | None = None,
    ) -> "Rules":
        """The rules that the options make for these sources. A prefix may pass their length limit, not the model's."""
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        if len(prefixes) != len(source):
            raise ValueError(f"{len(prefixes)} prefixes for {len(source)} sources: give one each, if need be empty")
        lengths = (source != PAD).sum(dim=1).tolist()
        limits = [max(options.max_length.tokens(n), len(p) + 1) for n, p in zip(lengths, prefixes, strict=True)]
        if model_limit is not None:
            limits = [min(limit, model_limit) for limit in limits]
        for limit, prefix in zip(limits, prefixes, strict=True):
            _check(prefix, limit)
        return Rules(torch.tensor(limits, device=source.device), options.min_length, _padded(prefixes, source.device))

    def select(self, sources: Int[Tensor, " selected"]) -> "Rules":
        return Rules(self.longest[sources], self.shortest, self.prefix[sources])

    def ending(self, step: int) -> Bool[Tensor, " sources"]:
        """Which outputs reach their limit with the token of this step (counted from 0)."""
        return self.longest == step + 1

    def strike(self, log_probabilities: Float[Tensor, "sources beam vocabulary"], step: int) -> None:
        """Strike out, in place, what is forbidden at this step."""
        log_probabilities[..., [PAD, BOS]] = FORBIDDEN
        if step + 1 < self.shortest:
            log_probabilities[..., EOS].masked_fill_(~self.ending(step)[:, None], FORBIDDEN)
        if step < self.prefix.shape[1]:
            self._keep_only(self.prefix[:, step], self.prefix[:, step] != PAD, log_probabilities)
        self._keep_only(torch.full_like(self.longest, EOS), self.ending(step), log_probabilities)

    @staticmethod
    def _keep_only(
        token: Int[Tensor, " sources"],
        where: Bool[Tensor, " sources"],
        log_probabilities: Float[Tensor, "sources beam vocabulary"],
    ) -> None:
        sources = where.nonzero().squeeze(1)
        if len(sources):
            token = token[sources]
            kept = log_probabilities[sources, :, token]
            log_probabilities[sources] = FORBIDDEN
            log_probabilities[sources, :, token] = kept


def _check(prefix: Sequence[int], limit: int) -> None:
    if {PAD, BOS, EOS} & set(prefix):
        raise ValueError(f"a forced prefix is made of ordinary tokens, not of PAD, BOS or EOS: {list(prefix)}")
    if len(prefix) >= limit:
        raise ValueError(f"a forced prefix of {len(prefix)} tokens leaves no room: this model writes at most {limit}")


def _padded(prefixes: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "sources prefix"]:
    width = max((len(prefix) for prefix in prefixes), default=0)
    rows = [list(prefix) + [PAD] * (width - len(prefix)) for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.int64, device=device).reshape(len(prefixes), width)
