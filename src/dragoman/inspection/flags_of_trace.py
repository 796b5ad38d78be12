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
    """Content words in a row that got too little from all target tokens together.

    By the head given; else, and better, by the mean over all heads of all layers. A word's coverage is what
    each of its tokens got, in target tokens, as in GNMT's coverage penalty (Wu et al., 2016, section 7), over what a
    source token usually gets. What several words in a row lack adds up, whatever short words stand between them.
    """
    source, spans = trace.source.text, trace.source.word_spans
    got = coverage(trace, rules, head)
    content = [_CONTENT.search(source[slice(*span)]) is not None for span in spans]
    usual = "the attention that is usual" if rules.expected_tokens else "an even share of the attention"
    for first, last in _runs((got < rules.coverage) | ~np.array(content, np.bool_)):
        inside = [i for i in range(first, last) if content[i]]
        lack = float(sum(1 - got[inside] / rules.coverage))
        if lack >= (rules.lack if head is None else rules.lack_of_head):
            span = (spans[inside[0]][0], spans[inside[-1]][1])
            said = (
                f"{quoted(source[slice(*span)])}: {several(len(inside), 'content word')} got "
                f"{float(got[inside].mean()):.2f} of {usual}"
            )
            severity = min(1.0, 0.3 + lack / sum(content))
            yield Flag(name="dropped", severity=severity, evidence=said, source=(span,))


def low_source_share(trace: Trace, share: Float[ndarray, " target"], rules: FlagRules) -> Iterator[Flag]:
    """Target tokens in a row that the source had little part in: a sign of hallucination (Voita et al., 2021).

    `share` is how much of each target token, EOS included, comes from the source rather than from what was written.
    """
    low = rules.low_share * rules.expected_share
    for first, last in _runs(np.asarray(share[:-1] < low)):
        if last - first >= rules.low_run:
            span = _stripped(trace.target.text, trace.target.spans[first][0], trace.target.spans[last - 1][1])
            mean = float(share[first:last].mean())
            said = (
                f"{quoted(trace.target.text[slice(*span)])}: {last - first} tokens in a row have a source share below "
                f"{low:.2f}, {mean:.2f} on average"
            )
            severity = min(1.0, 0.4 + 0.6 * (last - first) / (len(share) - 1))
            yield Flag(name="low source share", severity=severity, evidence=said, target=(span,))


def coverage(trace: Trace, rules: FlagRules, head: AlignmentHead | None = None) -> Float[ndarray, " source_words"]:
    """What the tokens of each source word got, each on average, as a part of what is usual."""
    given = looked(trace, head)
    num_words = len(trace.source.word_spans)
    num_tokens = np.bincount([word for word in trace.source.words if word >= 0], minlength=num_words)
    expected = rules.expected_tokens or len(trace.target) / len(trace.source)
    return np.asarray(given.sum(0) / np.maximum(num_tokens, 1) / expected)


def looked(trace: Trace, head: AlignmentHead | None) -> Float[ndarray, "pieces source_words"]:
    """What each target piece, EOS left out, gave to each source word; it has 1 to give, a part of it to EOS."""
    names = trace.names("cross")
    if head is None:
        weights = np.mean([np.asarray(trace.attention[name], np.float64).mean(0) for name in names], axis=0)
    else:
        weights = _of_head(trace, head)
    total = weights.sum(1, keepdims=True)  # norms have any
    pieces = (*range(len(trace.target) - 1), -1)
    num_words = (len(trace.source.word_spans), len(pieces) - 1)
    rows = "written" if head is None else head.rows
    return word_map(weights / np.where(total > 0, total, 1.0), trace.source.words, pieces, rows, num_words).words


def _of_head(trace: Trace, head: AlignmentHead) -> Float[ndarray, "target source"]:
    maps = (trace.attention if head.measure == "attention" else trace.norms).get(head.layer, np.zeros((0, 0, 0)))
    if len(maps) <= (head.head or 0):
        raise ValueError(f"the trace has no {head.measure} of {head.layer}, head {head.head}: give a head of its model")
    return np.asarray(maps.mean(0) if head.head is None else maps[head.head], np.float64)


def _runs(wanted: Bool[ndarray, " places"]) -> list[Span]:
    """From where to where it holds without a break."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _stripped(text: str, start: int, end: int) -> Span:
    """Without the space that a piece brings along."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
