"""Constraints on the next token: special tokens, length limits and forced prefixes.

The log-probability of a forbidden token is set to -inf and the others stay unchanged, so that a search reports the same
log-probabilities as scoring the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.options import SearchOptions
from dragoman.text.vocab import BOS, EOS, PAD

FORBIDDEN = float("-inf")


@dataclass(frozen=True)
class Rules:
    """The decoding constraints for a batch: length limits and forced prefixes."""

    longest: Int[Tensor, " sources"]
    """The maximum length of each output; the token at the limit can only be EOS."""
    shortest: int
    """The minimum output length in tokens, EOS included."""
    prefix: Int[Tensor, "sources prefix"]
    """The forced first tokens of each output; PAD where no token is forced."""

    @classmethod
    def of(
        cls,
        options: SearchOptions,
        source: Int[Tensor, "sources source"],
        prefixes: Sequence[Sequence[int]] | None = None,
        model_limit: int | None = None,
    ) -> "Rules":
        """Return the constraints for a batch of sources.

        A prefix may be longer than `max_length` allows for its source, but not longer than `model_limit`.
        """
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        if len(prefixes) != len(source):
            raise ValueError(f"{len(prefixes)} prefixes for {len(source)} sources: give one per source, [] for none")
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
        """Return a mask of the outputs that reach their length limit at this step (from 0)."""
        return self.longest == step + 1

    def strike(self, log_probabilities: Float[Tensor, "sources beam vocabulary"], step: int) -> None:
        """Set the log-probability of every token that is forbidden at this step to -inf, in place."""
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
        raise ValueError(f"the forced prefix {list(prefix)} contains PAD, BOS or EOS: remove these tokens")
    if len(prefix) >= limit:
        raise ValueError(f"the forced prefix has {len(prefix)} tokens, the limit is {limit - 1}: shorten the prefix")


def _padded(prefixes: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "sources prefix"]:
    width = max((len(prefix) for prefix in prefixes), default=0)
    rows = [list(prefix) + [PAD] * (width - len(prefix)) for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.int64, device=device).reshape(len(prefixes), width)
