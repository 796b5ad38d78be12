"""Pad batches to few shapes, since compiling bfloat16 kernels per shape takes a fifth of a small model's time."""

from typing import Final

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.text.vocab import EOS, PAD

ROWS: Final = 8
LENGTH: Final = 4


def pad_batch(
    source: Int[Tensor, "rows source"], target: Int[Tensor, "rows target"], longest: int | None = None
) -> tuple[Int[Tensor, "more_rows more_source"], Int[Tensor, "more_rows more_target"]]:
    """Return the batch padded to a multiple of `ROWS` rows and of `LENGTH` tokens.

    A side that would become longer than `longest` gets no more tokens. Padding does not change the loss: added tokens
    are PAD, added rows have an empty source and a target of PAD.
    """
    extra = -len(source) % ROWS
    more_source, more_target = (
        F.pad(side, (0, _missing(side.shape[1], longest), 0, extra), value=PAD) for side in (source, target)
    )
    more_source[len(source) :, 0] = EOS
    return more_source, more_target


def pad_guide(
    guide: Float[Tensor, "rows target source"],
    source: Int[Tensor, "more_rows more_source"],
    target: Int[Tensor, "more_rows more_target"],
) -> Float[Tensor, "more_rows more_target more_source"]:
    """Return the guide padded with 0 to the shape of a padded batch."""
    shape = len(source), target.shape[1], source.shape[1]
    missing = [new - old for new, old in zip(shape, guide.shape, strict=True)]
    return F.pad(guide, (0, missing[2], 0, missing[1], 0, missing[0]))


def _missing(length: int, longest: int | None) -> int:
    missing = -length % LENGTH
    return missing if longest is None or length + missing <= longest else 0
