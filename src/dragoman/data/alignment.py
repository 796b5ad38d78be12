"""Which source word each target word belongs to: weights of pieces merged to words, and links taken from them.

How pieces become words. What a source word got is the *sum* over its pieces, for attention is a share, and a word's
share is what its pieces have together. What a target word gave is the *mean* over its pieces, for each of them had one
whole share to give. So a row that sums to 1 before sums to 1 after (Clark et al., 2019, section 4; Kobayashi et al.,
2020). EOS is no word: on the target side it goes; on the source side its share is kept apart, and a rule decides
whether it counts. No torch here: engines, servers and pictures all align.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dragoman.config import Config

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target word, both counted from 0."""

Rows = Literal["written", "read"]
"""Which row of a decoder's map speaks for a target token: of the step that wrote it, or of the step that read it."""

Measure = Literal["attention", "norm"]
"""The weights as they are, or the norms of the weighted, transformed values (Kobayashi et al., 2020)."""


class AlignmentHead(Config):
    """Where in a model to look for the alignment."""

    layer: str = Field(description="the qualified name of the attention, such as decoder.layers.2.cross_attention")
    head: int | None = Field(ge=0, description="its number, from 0; null is the mean of all the layer's heads")
    rows: Rows = Field("written", description="a token's row: the step that wrote it, or the one that read it")
    measure: Measure = Field("attention", description="raw attention, or norms of the weighted values")


class LinkRule(Config):
    """Which weights become links. Left alone: every target word is linked to the source word it gave most to."""

    pick: Literal["best", "all"] = Field("best", description="the source word with most weight, or all of them")
    threshold: float = Field(0.0, ge=0.0, le=1.0, description="only with at least this share of the row, EOS included")
    eos: Literal["ignored", "null"] = Field(
        "ignored", description="null: a target word that gave most to EOS, with pick best, is linked to nothing"
    )

    @model_validator(mode="after")
    def _chooses(self) -> "LinkRule":
        if self.pick == "all" and self.threshold == 0:
            raise ValueError("pick: all without a threshold links everything to everything: give a threshold above 0")
        if self.pick == "all" and self.eos == "null":
            raise ValueError("eos: null needs pick: best, for without a best there is nothing that EOS could win")
        return self


class WordMap(NamedTuple):
    """What each target word gave. Leading axes, such as heads, are kept."""

    words: NDArray[np.float64]
    """[..., target words, source words]"""
    eos: NDArray[np.float64]
    """[..., target words]: to EOS, and to whatever else is no word."""


def steps(rows: Rows, num_tokens: int) -> slice:
    """The rows of a decoder's map that speak for the target tokens, in order, EOS left out.

    Row i is the step in which token i was *written*. It is *read* in the step after, row i + 1. The last word's last
    piece is read by the step that writes EOS. EOS itself is read by none, so it is the one token without a row.
    """
    return slice(0, num_tokens - 1) if rows == "written" else slice(1, num_tokens)


def word_map(
    weights: NDArray[np.floating],
    source_words: tuple[int, ...],
    target_words: tuple[int, ...],
    rows: Rows,
    num_words: tuple[int, int] | None = None,
) -> WordMap:
    """Merges weights [..., target tokens, source tokens]; the words are the number of each token's word, -1 for none.

    `num_words`, of source and target, is for texts whose last words may have left no piece. A word without pieces has
    nothing but zeros.
    """
    if weights.shape[-2:] != (len(target_words), len(source_words)):
        raise ValueError(
            f"weights of shape {weights.shape} do not fit {len(target_words)} target and {len(source_words)} source "
            "tokens: give a map of the decoder's attention to the source"
        )
    if not target_words or target_words[-1] != -1:
        raise ValueError("the target must end with EOS, a token of word -1: its step reads the last piece")
    given = weights[..., steps(rows, len(target_words)), :].astype(np.float64)
    num_source, num_target = num_words or (max(source_words, default=-1) + 1, max(target_words) + 1)
    target, source = _membership(target_words[:-1], num_target), _membership(source_words, num_source)
    num_pieces = np.maximum(target.sum(0), 1.0)
    merged = (target / num_pieces).T @ given  # [..., target words, source tokens]
    return WordMap(merged @ source, merged @ (1.0 - source.sum(1)))


def _membership(words: tuple[int, ...], num_words: int) -> NDArray[np.float64]:
    """[tokens, words], 1 where a token belongs to a word."""
    belongs: NDArray[np.bool_] = np.array(words, np.int64)[:, None] == np.arange(num_words)
    return belongs.astype(np.float64)


def linked(given: WordMap, rule: LinkRule) -> NDArray[np.bool_]:
    """[..., target words, source words], True for a link. Of equal weights the first is the best; zero is never one."""
    words, eos = given
    if not words.shape[-1]:
        return np.zeros(words.shape, np.bool_)
    total = words.sum(-1, keepdims=True) + eos[..., None]
    chosen: NDArray[np.bool_] = (words > 0) & (words >= rule.threshold * total)
    if rule.pick == "best":
        chosen &= np.arange(words.shape[-1]) == words.argmax(-1)[..., None]
    if rule.eos == "null":
        chosen &= words >= eos[..., None]
    return chosen


def links(given: WordMap, rule: LinkRule) -> Links:
    """The links of one map, without leading axes."""
    target, source = np.nonzero(linked(given, rule))
    return frozenset(zip(source.tolist(), target.tolist(), strict=True))


def swap(pairs: Links) -> Links:
    """The same links, seen from the other side."""
    return frozenset((target, source) for source, target in pairs)


def diagonal(num_source: int, num_target: int) -> Links:
    """Links that know nothing but the lengths: each target word to the source word at the same relative place."""
    if not num_source:
        return frozenset()
    return frozenset(((2 * j + 1) * num_source // (2 * num_target), j) for j in range(num_target))
