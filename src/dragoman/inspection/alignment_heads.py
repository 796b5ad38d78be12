"""The links that heads show in a trace: those of one head, or of all there are to choose from."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead, LinkRule, Links, Measure, Rows, WordMap, linked, links, word_map
from dragoman.inspection.trace import Trace

ARGMAX: Final = LinkRule()
"""Each target word to the source word it gave most to."""


class Sight(NamedTuple):
    """What all the heads show."""

    heads: list[AlignmentHead]
    links: Bool[ndarray, "heads target_words source_words"]


def best_guess(names: Sequence[str]) -> AlignmentHead:
    """Where to look if nobody has measured: the mean of the second last layer (Garg et al., 2019), or of the only
    one, a row being the token that is written. The names are those of cross-attention, from the lowest layer up.
    """
    if not names:
        raise ValueError(
            "this model cannot align: it has no attention from the target to the source; use one that has, such as a "
            "Transformer or bahdanau"
        )
    return AlignmentHead(layer=names[max(0, len(names) - 2)], head=None)


def head_links(trace: Trace, head: AlignmentHead, rule: LinkRule = ARGMAX) -> Links:
    """The links that one head shows."""
    maps = _cross(trace, head.measure)
    if head.layer not in maps:
        known = ", ".join(maps) or "none"
        raise ValueError(f"the trace has no {head.measure} of {head.layer!r} to align by; it has: {known}")
    weights = maps[head.layer]
    if head.head is not None and head.head >= len(weights):
        raise ValueError(f"{head.layer} has {len(weights)} heads, counted from 0: there is no head {head.head}")
    one = weights.mean(0) if head.head is None else weights[head.head]
    return links(_words(trace, one, head.rows), rule)


def all_links(trace: Trace, rule: LinkRule = ARGMAX) -> Sight:
    """The links of every measure, layer, row convention and head; where there are several heads, of their mean too."""
    heads: list[AlignmentHead] = []
    found = []
    for measure, layer, weights in _candidates(trace):
        for rows in get_args(Rows):
            found.append(linked(_words(trace, weights, rows), rule))
            numbers = [0] if len(weights) == 1 else [*range(len(weights) - 1), None]
            heads += [AlignmentHead(layer=layer, head=head, rows=rows, measure=measure) for head in numbers]
    if not found:
        raise ValueError("the trace has no attention from the target to the source: this model cannot align")
    return Sight(heads, np.concatenate(found))


def same_heads(number: int, known: list[AlignmentHead], heads: list[AlignmentHead]) -> list[AlignmentHead]:
    """The heads, if they are the ones known from the traces before, or those are the first."""
    if known and known != heads:
        raise ValueError(f"trace {number} has other attention maps than those before it: trace all with one model")
    return heads


def _candidates(trace: Trace) -> Iterator[tuple[Measure, str, Float[ndarray, "heads target source"]]]:
    """Every cross-attention by every measure; behind several heads stands their mean."""
    for measure in get_args(Measure):
        for layer, weights in _cross(trace, measure).items():
            several = len(weights) > 1
            yield measure, layer, np.concatenate([weights, weights.mean(0, keepdims=True)]) if several else weights


def _cross(trace: Trace, measure: Measure) -> dict[str, Float[ndarray, "heads target source"]]:
    maps = trace.attention if measure == "attention" else trace.norms
    return {name: np.asarray(maps[name], np.float64) for name in trace.names("cross") if name in maps}


def _words(trace: Trace, weights: Float[ndarray, "*heads target source"], rows: Rows) -> WordMap:
    source, target = trace.source, trace.target
    num_words = len(source.word_spans), len(target.word_spans)
    return word_map(weights, source.words, target.words, rows, num_words)
