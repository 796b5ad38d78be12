"""How probable a model finds given translations: text in, log-probabilities out, in batches of like lengths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.data.characters import mended
from dragoman.data.progress import Progress
from dragoman.data.ragged import Ragged
from dragoman.data.vocab import PAD, Vocab
from dragoman.decoding.batching import alike, require_short
from dragoman.decoding.scoring import score
from dragoman.models.seq2seq import Seq2Seq

TOKENS: Final = 2048
"""Of a batch, both sides, padding included."""


@dataclass(frozen=True)
class Likelihood:
    """Of one target, or of several together."""

    log_probability: float
    num_tokens: int
    """Subwords and the end of each sentence."""

    @property
    def per_token(self) -> float:
        """What sentences of different lengths can be compared by."""
        return self.log_probability / self.num_tokens

    @property
    def perplexity(self) -> float:
        """Per subword, as the paper counts it: it depends on the vocabulary."""
        return math.exp(-self.per_token)


def likelihoods(
    model: Seq2Seq[Any, Any],
    vocab: Vocab,
    sources: Sequence[str],
    targets: Sequence[str],
    tokens: int = TOKENS,
    progress: Progress | None = None,
) -> list[Likelihood]:
    """One for each pair of lines, in their order. Both sides are mended as training text is, or they would look odd."""
    source, target = vocab.source.encode([*map(mended, sources)]), vocab.target.encode([*map(mended, targets)])
    require_short("source", source.lengths, model.max_target)
    require_short("target", target.lengths, model.max_target)
    totals = np.zeros(target.num_rows)
    done = 0
    lengths = list(zip(target.lengths.tolist(), source.lengths.tolist(), strict=True))
    for rows in map(np.array, alike(lengths, tokens)):
        totals[rows] = _totals(model, source.take(rows), target.take(rows))
        done += len(rows)
        if progress:
            progress("score", done, len(totals))
    return [Likelihood(float(total), int(length)) for total, length in zip(totals, target.lengths, strict=True)]


def together(parts: Sequence[Likelihood]) -> Likelihood:
    """Of all targets as one text."""
    return Likelihood(math.fsum(part.log_probability for part in parts), sum(part.num_tokens for part in parts))


def _totals(model: Seq2Seq[Any, Any], source: Ragged, target: Ragged) -> NDArray[np.float64]:
    padded = (torch.from_numpy(side.padded(PAD)).long() for side in (source, target))
    totals: NDArray[np.float64] = score(model, *padded).double().sum(dim=1).numpy()
    return totals
