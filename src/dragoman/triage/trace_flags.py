"""Flags that need a trace: source words with little attention, and target tokens with a low source share."""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.alignment.links import word_map
from dragoman.inspection.trace import Trace
from dragoman.triage.numerals import TextSpan
from dragoman.triage.text_flags import DEFAULT_RULES, Flag, FlagRules, count, flag_text, quote, sort_flags

Shares = Float[ndarray, " target"]
_CONTENT: Final = re.compile(r"\d|[^\W\d_]{4}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A content word, as a heuristic for any language: four letters in a row, a digit or an ideograph."""


def flag_trace(trace: Trace, rules: FlagRules = DEFAULT_RULES, share: Shares | None = None) -> list[Flag]:
    """Return the flags of a traced translation, by its text and its attention, most severe first.

    `share` is the source share of each target token, including EOS.
    """
    if share is not None and len(share) != len(trace.target):
        raise ValueError(f"got {len(share)} source shares for {len(trace.target)} target tokens: give one per token")
    flags = flag_text(trace.source.text, trace.target.text, rules)
    if trace.names("cross"):
        flags += check_dropped(trace, rules)
    if share is not None:
        flags += check_source_share(trace, share, rules)
    return sort_flags(flags)


def check_dropped(trace: Trace, rules: FlagRules) -> Iterator[Flag]:
    """Flag runs of source content words that received too little attention from all target tokens together.

    A word's coverage is the attention that its tokens received on average, summed over target tokens as in GNMT's
    coverage penalty (Wu et al., 2016, section 7), divided by the expected attention on a source token. The deficits of
    consecutive content words add up; short words between them are ignored.
    """
    source, spans = trace.source.text, trace.source.word_spans
    got = coverage(trace, rules)
    content = [_CONTENT.search(source[slice(*span)]) is not None for span in spans]
    usual = "the attention that is usual" if rules.expected_tokens else "an even share of the attention"
    for first, last in _runs((got < rules.coverage) | ~np.array(content, np.bool_)):
        inside = [i for i in range(first, last) if content[i]]
        lack = float(sum(1 - got[inside] / rules.coverage))
        if lack >= rules.lack:
            span = (spans[inside[0]][0], spans[inside[-1]][1])
            words, mean = count(len(inside), "content word"), float(got[inside].mean())
            evidence = f"{quote(source[slice(*span)])}: {words} got {mean:.2f} of {usual}"
            severity = min(1.0, 0.3 + lack / sum(content))
            yield Flag(name="dropped", severity=severity, evidence=evidence, source=(span,))


def check_source_share(trace: Trace, share: Shares, rules: FlagRules) -> Iterator[Flag]:
    """Flag runs of target tokens with a low source share, a sign of hallucination (Voita et al., 2021).

    `share` is the share of the source, rather than of the target prefix, in each target token, including EOS.
    """
    low = rules.low_share * rules.expected_share
    for first, last in _runs(np.asarray(share[:-1] < low)):
        if last - first >= rules.low_run:
            start, end = trace.target.spans[first][0], trace.target.spans[last - 1][1]
            text = trace.target.text[start:end]
            span = (start + len(text) - len(text.lstrip()), start + len(text.rstrip()))  # pieces begin with a space
            seen = f"a source share below {low:.2f}, {float(share[first:last].mean()):.2f} on average"
            evidence = f"{quote(text.strip())}: {last - first} tokens in a row have {seen}"
            severity = min(1.0, 0.4 + 0.6 * (last - first) / (len(share) - 1))
            yield Flag(name="low source share", severity=severity, evidence=evidence, target=(span,))


def coverage(trace: Trace, rules: FlagRules) -> Float[ndarray, " source_words"]:
    """Return each source word's coverage: the attention that its tokens get, divided by what is expected.

    The attention is the mean over all heads, summed over target tokens. A source token is expected to get as much as
    there are target tokens per source token.
    """
    names, num_words = trace.names("cross"), len(trace.source.word_spans)
    weights = np.mean([np.asarray(trace.attention[name], np.float64).mean(0) for name in names], axis=0)
    total = weights.sum(1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1.0)  # a row sums to at most 1, as a part goes to EOS
    pieces = (*range(len(trace.target) - 1), -1)  # each target piece is its own word
    given = word_map(shares, trace.source.words, pieces, "written", (num_words, len(pieces) - 1)).words
    num_tokens = np.bincount([word for word in trace.source.words if word >= 0], minlength=num_words)
    expected = rules.expected_tokens or len(trace.target) / len(trace.source)
    return np.asarray(given.sum(0) / np.maximum(num_tokens, 1) / expected)


def _runs(values: Bool[ndarray, " n"]) -> list[TextSpan]:
    """Return the (start, end) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], values.astype(np.int8), [0]])))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
