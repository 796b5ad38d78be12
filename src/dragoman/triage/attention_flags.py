"""The flag of dropped words: source words that received little attention. Does not import torch."""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.alignment.links import word_map
from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import Rows
from dragoman.triage.model_signals import Weights
from dragoman.triage.numerals import TextSpan
from dragoman.triage.text_flags import DEFAULT_RULES, Flag, FlagRules, count, quote

Coverage = Float[ndarray, " source_words"]
_CONTENT: Final = re.compile(r"\d|[^\W\d_]{4}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A content word, as a heuristic for any language: four letters in a row, a digit or an ideograph."""


def check_dropped(source: Tokens, covered: Coverage, rules: FlagRules = DEFAULT_RULES) -> Iterator[Flag]:
    """Flag runs of source content words that received too little attention from all target tokens together.

    A word's coverage is the attention that its tokens received on average, summed over target tokens as in GNMT's
    coverage penalty (Wu et al., 2016, section 7), divided by the expected attention on a source token. The deficits of
    consecutive content words add up; short words between them are ignored.
    """
    text, spans = source.text, source.word_spans
    content = [_CONTENT.search(text[slice(*span)]) is not None for span in spans]
    for first, last in _runs((covered < rules.coverage) | ~np.array(content, np.bool_)):
        inside = [i for i in range(first, last) if content[i]]
        lack = float(sum(1 - covered[inside] / rules.coverage))
        if lack >= rules.lack:
            span = (spans[inside[0]][0], spans[inside[-1]][1])
            words, mean = count(len(inside), "content word"), float(covered[inside].mean())
            usual = "the attention that is usual" if rules.expected_tokens else "an even share of the attention"
            evidence = f"{quote(text[slice(*span)])}: {words} got {mean:.2f} of {usual}"
            severity = min(1.0, 0.3 + lack / sum(content))
            yield Flag(name="dropped", severity=severity, evidence=evidence, source=(span,))


def coverage(source: Tokens, weights: Weights, rows: Rows, expected: float | None = None) -> Coverage:
    """Return each source word's coverage: the attention that its tokens get, divided by what is expected.

    A source token is expected to get as much as there are target tokens per source token: `expected`, or the number in
    this sentence.
    """
    num_words, num_rows = len(source.word_spans), len(weights)
    total = weights.sum(1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1.0)
    pieces = (*range(num_rows - 1), -1)  # each target piece is its own word
    given = word_map(shares, source.words, pieces, rows, (num_words, num_rows - 1)).words
    num_tokens = np.bincount([word for word in source.words if word >= 0], minlength=num_words)
    return np.asarray(given.sum(0) / np.maximum(num_tokens, 1) / (expected or num_rows / len(source)))


def _runs(values: Bool[ndarray, " n"]) -> list[TextSpan]:
    """Return the (start, end) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], values.astype(np.int8), [0]])))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
