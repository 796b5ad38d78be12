"""Batches of sequences of similar length, to reduce padding; smaller batches if memory runs out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from dragoman.device import is_out_of_memory
from dragoman.training.allocator import release_device_memory

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


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


def compute_batches(
    batches: Iterable[list[int]], compute: Callable[[list[int]], T], device: "torch.device"
) -> Iterator[tuple[list[int], T]]:
    """Yield each batch with what `compute` returns for it; while memory runs out, halve this batch and later ones.

    Raise ValueError if memory does not hold a batch of one sequence.
    """
    num_parts = 1
    for batch in batches:
        begin = 0
        while begin < len(batch):
            part = batch[begin : begin + ceil(len(batch) / num_parts)]
            try:
                result = compute(part)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(part) == 1:
                    fix = "free some memory, shorten the longest sentence, or compute on another device"
                    raise ValueError(f"memory does not hold a batch of one sentence: {fix}") from error
            else:
                yield part, result
                begin += len(part)
                continue
            release_device_memory(device)  # here: until the except block ends, the error keeps its tensors
            num_parts *= 2


def require_short(side: str, lengths: Int[ndarray, " lines"], longest: int | None) -> None:
    """Raise ValueError if a line has more than `longest` tokens. The limit is the same for source and target."""
    if longest is not None and (lengths > longest).any():
        line = int(np.argmax(lengths > longest))
        raise ValueError(
            f"line {line + 1:,} of the {side} has {lengths[line]:,} tokens, but this model takes at most "
            f"{longest:,}: split the line, or leave the pair out"
        )
