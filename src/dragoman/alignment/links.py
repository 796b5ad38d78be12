"""Word links from attention weights between subword tokens. This module does not import torch.

Token weights are merged into word weights, and each target word links to the source word with the largest weight. The
weight on a source word is the *sum* over its tokens. The weight from a target word is the *mean* over its tokens, as
the weights of each token sum to 1. So a row that sums to 1 still sums to 1 after merging (Clark et al., 2019, section
4; Kobayashi et al., 2020). EOS is not a word: EOS of the target is dropped, and the weight on EOS of the source is kept
separately.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.alignment_head import Rows

Numbers = tuple[int, ...]
Links = frozenset[tuple[int, int]]
"""A set of (source word, target word) indices, counted from 0."""


class WordMap(NamedTuple):
    """Attention weights of target words on source words, with any leading axes, such as heads."""

    words: NDArray[np.float64]
    """[..., target words, source words]"""
    eos: NDArray[np.float64]
    """[..., target words], the weight on EOS and on other source tokens that belong to no word."""


def steps(rows: Rows, num_tokens: int) -> slice:
    """Return the slice of cross-attention rows that align the target tokens, in order, without EOS.

    Row i is the decoding step whose output is token i (`rows` = "written"). Token i is the input of the next step, row
    i + 1 (`rows` = "read"). EOS is never an input.
    """
    return slice(0, num_tokens - 1) if rows == "written" else slice(1, num_tokens)


def word_map(
    weights: NDArray[np.floating], source_words: Numbers, target_words: Numbers, rows: Rows, num_words: Numbers = ()
) -> WordMap:
    """Merge token weights [..., target tokens, source tokens] into word weights.

    `source_words` and `target_words` hold the word index of each token (-1: no word). `num_words` has the number of
    source words and of target words, for texts whose last words may have no tokens. All weights of a word without
    tokens are 0.
    """
    if weights.shape[-2:] != (len(target_words), len(source_words)):
        wrong = f"weights {weights.shape} do not fit {len(target_words)} target and {len(source_words)} source tokens"
        raise ValueError(f"{wrong}: give a cross-attention map")
    if not target_words or target_words[-1] != -1:
        raise ValueError("the target does not end with EOS, whose word index is -1: append -1 to target_words")
    by_token = weights[..., steps(rows, len(target_words)), :].astype(np.float64)
    num_source, num_target = num_words or (max(source_words, default=-1) + 1, max(target_words) + 1)
    target, source = _membership(target_words[:-1], num_target), _membership(source_words, num_source)
    num_pieces = np.maximum(target.sum(0), 1.0)
    merged = (target / num_pieces).T @ by_token  # [..., target words, source tokens]
    return WordMap(merged @ source, merged @ (1.0 - source.sum(1)))


def _membership(words: Numbers, num_words: int) -> NDArray[np.float64]:
    """Return a matrix [tokens, words] that is 1 where a token belongs to a word, otherwise 0."""
    return np.asarray(np.array(words, np.int64)[:, None] == np.arange(num_words), np.float64)


def is_linked(words: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask [..., target words, source words] of each target word's largest weight.

    Of equal weights, the first is marked. A target word whose weights are all 0 has no mark.
    """
    if not words.shape[-1]:
        return np.zeros(words.shape, np.bool_)
    return np.asarray((np.arange(words.shape[-1]) == words.argmax(-1)[..., None]) & (words > 0))


def links(weights: WordMap) -> Links:
    """Return the word links of one map [target words, source words]."""
    target, source = np.nonzero(is_linked(weights.words))
    return frozenset(zip(source.tolist(), target.tolist(), strict=True))


def swap(pairs: Links) -> Links:
    """Return the links with source and target swapped."""
    return frozenset((target, source) for source, target in pairs)


def diagonal(num_source: int, num_target: int) -> Links:
    """Link each target word to the source word at the same relative position, as a baseline without a model."""
    if not num_source:
        return frozenset()
    return frozenset(((2 * j + 1) * num_source // (2 * num_target), j) for j in range(num_target))
