"""The log-probability of given translations under a model, computed in batches of similar lengths."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from dragoman.decoding.batching import alike, compute_batches, require_short
from dragoman.decoding.scoring import score
from dragoman.io.progress import Progress, ignore_progress
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import PAD, Vocab

Lines = Sequence[str]
BATCH_TOKENS: Final = 2048
"""The maximum batch size in source and target tokens, including padding."""


class Likelihood(NamedTuple):
    """The log-probability and number of tokens of one target, or summed over several targets."""

    log_probability: float
    num_tokens: int
    """The number of subwords, including the EOS of each sentence."""

    @property
    def per_token(self) -> float:
        """The mean log-probability per token, which is comparable between sentences of different lengths."""
        return self.log_probability / self.num_tokens

    @property
    def perplexity(self) -> float:
        """The perplexity per subword, which depends on the vocabulary."""
        return math.exp(-self.per_token)


def score_pairs(
    model: Seq2Seq[Any, Any], vocab: Vocab, sources: Lines, targets: Lines, progress: Progress = ignore_progress
) -> list[Likelihood]:
    """Return the log-probability of each target given its source, in input order.

    Sources and targets are cleaned like training text, so that stray spaces do not lower the log-probability.
    """
    source, target = vocab.source.encode([*map(clean_line, sources)]), vocab.target.encode([*map(clean_line, targets)])
    require_short("source", source.lengths, model.max_target)
    require_short("target", target.lengths, model.max_target)
    device = next(model.parameters()).device
    totals, done = np.zeros(target.num_rows), 0
    lengths = list(zip(target.lengths.tolist(), source.lengths.tolist(), strict=True))

    def score_batch(rows: list[int]) -> Float[ndarray, " rows"]:
        taken = (side.take(np.array(rows)) for side in (source, target))
        batch = (torch.from_numpy(side.padded(PAD)).long().to(device) for side in taken)
        sums: Float[ndarray, " rows"] = score(model, *batch).cpu().double().sum(dim=1).numpy()
        return sums

    for rows, scores in compute_batches(alike(lengths, BATCH_TOKENS), score_batch, device):
        totals[rows] = scores
        done += len(rows)
        progress("score", done, len(totals))
    return [Likelihood(float(total), int(length)) for total, length in zip(totals, target.lengths, strict=True)]


def total_likelihood(parts: Sequence[Likelihood]) -> Likelihood:
    """Return the sum of the log-probabilities and token counts of all targets."""
    return Likelihood(math.fsum(part.log_probability for part in parts), sum(part.num_tokens for part in parts))
