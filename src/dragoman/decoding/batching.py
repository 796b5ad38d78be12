"""Which of many sequences go through a model together: those of like lengths, so that little of a batch is padding."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray


def alike(lengths: Sequence[tuple[int, ...]], tokens: int) -> Iterator[list[int]]:
    """Places, the longest first, so many that a batch has at most so many tokens, padding included; one at least.

    Pairs have a length for each side. With the longest first, what does not fit into memory fails at once.
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
    """Refuse lines that the model cannot take. A Transformer has as many positions for its source as for its target."""
    if longest is not None and (lengths > longest).any():
        line = int(np.argmax(lengths > longest))
        raise ValueError(
            f"line {line + 1:,} of the {side} has {lengths[line]:,} tokens, but this model takes at most "
            f"{longest:,}: split the line, or leave the pair out"
        )
