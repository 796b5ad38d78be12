"""Batches cut into pieces when memory does not hold them whole: the same pairs, the same sums, less at a time."""

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

MOST = 64
"""Pieces. Where a sixty-fourth of a batch does not fit, cutting is no cure."""

_WORDS = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is what torch says when an allocation fails, on a GPU or on a CPU."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in str(error) for word in _WORDS)


def cut(
    source: Int[Tensor, "rows source"], target: Int[Tensor, "rows target"], pieces: int
) -> Iterator[tuple[Int[Tensor, "_ source"], Int[Tensor, "_ target"]]]:
    """The rows of a batch in so many pieces, as even as they can be; in fewer, if there are fewer rows."""
    pieces = min(pieces, source.shape[0])
    yield from zip(source.tensor_split(pieces), target.tensor_split(pieces), strict=True)
