"""Batches of sequences of similar length, to reduce padding."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray


def alike(lengths: Sequence[tuple[int, ...]], tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices into `lengths`, with at most `tokens` tokens including padding.

    Each item of `lengths` has one length per side (source, target). A batch has at least one sequence. The longest
    sequences come first, so that an out-of-memory error occurs at once.
    """
    batch: list[int] = []
    longest: tuple[int, ...] = ()
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        wide = tuple(map(max, longest, lengths[i])) if batch else lengths[i]
        if batch and (len(batch) + 1) * sum(wide) > tokens:
            yield batch
            batch, wide = [], lengths[i]
        batch.append(i)
        longest = wide
    if batch:
        yield batch


def require_short(side: str, lengths: Int[ndarray, " lines"], longest: int | None) -> None:
    """Raise ValueError if a line has more than `longest` tokens. The limit is the same for source and target."""
    if longest is not None and (lengths > longest).any():
        line = int(np.argmax(lengths > longest))
        raise ValueError(
            f"line {line + 1:,} of the {side} has {lengths[line]:,} tokens, but this model takes at most "
            f"{longest:,}: split the line, or leave the pair out"
        )
