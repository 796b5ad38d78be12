"""Flags that need a trace: what nothing looked at, and what came from elsewhere than the source."""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead, word_map
from dragoman.inspection.flag import Flag, FlagRules, Span, quoted, several
from dragoman.inspection.trace import Trace

_CONTENT: Final = re.compile(r"\d|[^\W\d_]{4}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Of a content word, as far as that can be told in any language: four letters in a row, a digit, an ideograph."""


def dropped(trace: Trace, rules: FlagRules, head: AlignmentHead | None = None) -> Iterator[Flag]:
    """Content words in a row that no piece of the target looked at most, and that got little from all together.

    By the alignment head, if one is known; else by the mean over all heads of all layers. Pieces, not words, of the
    target look: so one long compound can answer for several source words.
    """
    given = looked(trace, head)
    source, spans = trace.source.text, trace.source.word_spans
    got = _coverage(given)
    unseen = _unseen(given, got, rules)
    content = [_CONTENT.search(source[slice(*span)]) is not None for span in spans]
    for first, last in _runs(unseen | ~np.array(content, np.bool_)):
        inside = [i for i in range(first, last) if content[i]]
        if len(inside) >= rules.dropped_words:
            span = (spans[inside[0]][0], spans[inside[-1]][1])
            share = float(got[inside].mean())
            said = (
                f"{quoted(source[slice(*span)])}: no target token looked there most, and its "
                f"{several(len(inside), 'content word')} got {share:.2f} of an even share of the attention"
            )
            severity = min(1.0, (1 - min(share, 1.0)) * (0.5 + len(inside) / max(1, sum(content))))
            yield Flag(name="dropped", severity=severity, evidence=said, source=(span,))


def low_source_share(trace: Trace, share: Float[ndarray, " target"], rules: FlagRules) -> Iterator[Flag]:
    """Target tokens in a row that the source had little part in: a sign of hallucination (Voita et al., 2021).

    `share` is how much of each target token, EOS included, comes from the source rather than from what was written.
    """
    for first, last in _runs(np.asarray(share[:-1] < rules.low_share)):
        if last - first >= rules.low_run:
            span = _stripped(trace.target.text, trace.target.spans[first][0], trace.target.spans[last - 1][1])
            mean = float(share[first:last].mean())
            said = (
                f"{quoted(trace.target.text[slice(*span)])}: {last - first} tokens in a row have a source share below "
                f"{rules.low_share:.2f}, {mean:.2f} on average"
            )
            severity = min(1.0, 0.4 + 0.6 * (last - first) / (len(share) - 1))
            yield Flag(name="low source share", severity=severity, evidence=said, target=(span,))


def looked(trace: Trace, head: AlignmentHead | None) -> Float[ndarray, "pieces source_words"]:
    """What each target piece, EOS left out, gave to each source word."""
    names = trace.names("cross")
    if head is None:
        weights = np.mean([np.asarray(trace.attention[name], np.float64).mean(0) for name in names], axis=0)
    else:
        weights = _of_head(trace, head)
    pieces = (*range(len(trace.target) - 1), -1)
    num_words = (len(trace.source.word_spans), len(pieces) - 1)
    rows = "written" if head is None else head.rows
    return word_map(weights, trace.source.words, pieces, rows, num_words).words


def _of_head(trace: Trace, head: AlignmentHead) -> Float[ndarray, "target source"]:
    maps = (trace.attention if head.measure == "attention" else trace.norms).get(head.layer, np.zeros((0, 0, 0)))
    if len(maps) <= (head.head or 0):
        raise ValueError(f"the trace has no {head.measure} of {head.layer}, head {head.head}: give a head of its model")
    return np.asarray(maps.mean(0) if head.head is None else maps[head.head], np.float64)


def _unseen(
    given: Float[ndarray, "pieces words"], got: Float[ndarray, " words"], rules: FlagRules
) -> Bool[ndarray, " words"]:
    best = given.argmax(1) if given.size else np.zeros(0, np.int64)
    return np.asarray((got < rules.coverage) & ~np.isin(np.arange(len(got)), best))


def _coverage(given: Float[ndarray, "pieces words"]) -> Float[ndarray, " words"]:
    """What each source word got of all that was given to words, 1 for an even share."""
    total = given.sum()
    return np.asarray(given.sum(0) * given.shape[1] / total) if total else np.zeros(given.shape[1])


def _runs(wanted: Bool[ndarray, " places"]) -> list[Span]:
    """From where to where it holds without a break."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _stripped(text: str, start: int, end: int) -> Span:
    """Without the space that a piece brings along."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
