"""Confirm the alignment heads that a package names, on copied tokens: no pairs of sentences are needed.

The source has random tokens that both languages have, such as names. Its translation has the same tokens without a few
at the beginning. A head that aligns points from each token to the same token of the source; a head that follows the
diagonal does not. The first token is not counted, because nothing before it says where the copy begins.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import AlignmentHead, Heads, Rows
from dragoman.pretrained.marian_model import MarianModel, cross_head
from dragoman.pretrained.reference import ReferenceModel

_COPIES: Final = 12
"""The number of sentences: each takes about a second with a model of the paper's base size."""

_LENGTHS: Final = (8, 16)
"""The number of tokens of the shortest and the longest source."""

_ENOUGH: Final = 0.3
"""The smallest share of tokens that an alignment head finds. Of the demo, which was trained to align, the head finds
0.56 and every other head less than 0.16."""


@dataclass(frozen=True)
class HeadCheck:
    """The result of a check: how many copied tokens the named heads find, and how many the best head of all."""

    tokens: int
    found: int
    best: AlignmentHead
    found_by_best: int

    @property
    def is_confirmed(self) -> bool:
        """True if the named heads find enough of the tokens, and no head finds more."""
        return self.found >= max(self.found_by_best, _ENOUGH * self.tokens, 1)


def check_heads(model: MarianModel, heads: Heads, tag: str | None = None) -> HeadCheck | None:
    """Compare `heads`, which are averaged, with all heads of the decoder on copied tokens.

    With `tag`, a language tag begins every source. Return None if the languages have too few tokens in common.
    """
    copies = list(_make_copies(model))
    if not heads or not copies:
        return None
    reference, begin = ReferenceModel(model), [] if tag is None else [model.source.ids[tag]]
    rows = heads[0].rows
    shape = model.shape.num_decoder_layers, model.shape.num_heads
    found_by, found, tokens = np.zeros(shape, np.int64), 0, 0
    for source, target in copies:
        weights = reference.cross_attention([*begin, *source, model.source.eos], [*target, model.target.eos])
        right = len(begin) + len(source) - len(target) + np.arange(len(target))
        named = np.mean([weights[head.layer_number, head.head] for head in heads], axis=0)
        found_by += _count_hits(weights, right, rows)
        found += int(_count_hits(named, right, rows))
        tokens += len(target) - 1
    layer, head = np.unravel_index(found_by.argmax(), shape)
    return HeadCheck(tokens, found, cross_head(int(layer), int(head), rows), int(found_by.max()))


def _count_hits(weights: NDArray[Any], right: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
    """Return how many tokens but the first have their largest weight at the right source token, for each head."""
    steps = slice(1, len(right)) if rows == "written" else slice(2, len(right) + 1)
    return np.asarray((weights[..., steps, :].argmax(-1) == right[1:]).sum(-1))


def _make_copies(model: MarianModel, seed: int = 6) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ids of sources and of their partial copies, without EOS."""
    draw, sides = random.Random(seed), (model.source, model.target)
    of_target = set(model.target.pieces)
    both = [token for token in model.source.pieces if token in of_target]
    words = [token for token in both if token.startswith("▁") and len(token) > 3]
    tokens = words if len(words) >= 4 * _LENGTHS[1] else both
    if len(tokens) < 2 * _LENGTHS[1]:
        return
    for _ in range(_COPIES):
        source = draw.sample(tokens, draw.randint(*_LENGTHS))
        copied = source[draw.randint(1, len(source) // 2) :]
        yield [sides[0].ids[token] for token in source], [sides[1].ids[token] for token in copied]
