"""Search for the attention head that aligns words best. This module does not import torch.

Every layer and head is tried with both row conventions ("written", "read") and both measures ("attention", "norm").
With gold links, heads are ranked by alignment error rate. Without gold links, pairs of a forward head and a backward
head are ranked by agreement (Chen et al., 2020, section 3.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from dragoman.alignment.error_rate import AlignmentScore, score_counts, zip_numbered
from dragoman.alignment.links import Links, WordMap, diagonal, is_linked, links, word_map
from dragoman.alignment.moses import Gold
from dragoman.bundle.alignment_head import AlignmentHead, Measure, Rows
from dragoman.inspection.trace import Trace

HeadLinks = Bool[ndarray, "heads target_words source_words"]


@dataclass(frozen=True, eq=False)
class AlignmentGrid:
    """The alignment scores of all heads of a model."""

    scores: Mapping[AlignmentHead, AlignmentScore]

    def ranked(self) -> list[tuple[AlignmentHead, AlignmentScore]]:
        """Return all heads with their scores, lowest error rate first."""
        return sorted(self.scores.items(), key=lambda item: item[1].aer)

    def panel(self, rows: Rows, measure: Measure) -> tuple[list[str], Float[ndarray, "layers columns"]]:
        """Return the layer names, and the error rates with one row per layer and one column per head.

        The last column is the mean over a layer's heads, or NaN for a layer with a single head.
        """
        scores = {head: score for head, score in self.scores.items() if (head.rows, head.measure) == (rows, measure)}
        layers = list(dict.fromkeys(head.layer for head in scores))
        num_heads = max((head.head + 1 for head in scores if head.head is not None), default=0)
        rates = np.full((len(layers), num_heads + 1), np.nan)
        for head, score in scores.items():
            rates[layers.index(head.layer), num_heads if head.head is None else head.head] = score.aer
        return layers, rates

    def held_out_aer(self) -> float:
        """Return the error rate in two-fold cross-validation: choose the head on one half, score it on the other."""
        counts = {head: score.counts for head, score in self.scores.items()}
        rest = []
        for fold in (0, 1):
            best = min(counts, key=lambda head: AlignmentScore(counts[head][fold::2]).aer)
            rest.append(counts[best][1 - fold :: 2])
        return AlignmentScore(np.concatenate(rest)).aer


class HeadAgreement(NamedTuple):
    """A forward and a backward head, and their agreement: common links divided by all links."""

    forward: AlignmentHead
    backward: AlignmentHead
    share: float


def score_heads(traces: Iterable[Trace], gold: Iterable[Gold]) -> AlignmentGrid:
    """Score every head of the traced model against gold links; keep only one trace in memory at a time.

    The score of the best of many heads is biased: choose the head on some sentences, and report the score on others.
    """
    heads: list[AlignmentHead] = []
    counts = []
    for number, trace, right in zip_numbered(traces, gold, ("traces", "gold lines")):
        of_trace, found = links_of_heads(trace)
        heads = _same_heads(number, heads, of_trace)
        counts.append(_counts(found, right))
    if not counts:
        raise ValueError("there are no traces to search: trace sentences that have gold alignments")
    by_head = np.stack(counts, axis=1)  # [heads, sentences, 4]
    return AlignmentGrid({head: score_counts(of_head) for head, of_head in zip(heads, by_head, strict=True)})


def rank_agreement(forward: Iterable[Trace], backward: Iterable[Trace]) -> list[HeadAgreement]:
    """Compare forward and backward heads on the same sentence pairs; return head pairs, highest agreement first.

    Two heads that each point at a fixed position disagree. Two heads that follow the diagonal agree without aligning
    anything: check the best pair with `diagonal_share`.
    """
    there_heads: list[AlignmentHead] = []
    back_heads: list[AlignmentHead] = []
    both = total = np.zeros((1, 1))
    for number, there, back in zip_numbered(forward, backward, ("forward traces", "backward traces")):
        for one, other in ((there.source, back.target), (there.target, back.source)):
            if one.text.split() != other.text.split():
                raise ValueError(f"pair {number} differs ({one.text!r}, {other.text!r}): use the same pairs both ways")
        (first_heads, first), (second_heads, second) = links_of_heads(there), links_of_heads(back)
        there_heads = _same_heads(number, there_heads, first_heads)
        back_heads = _same_heads(number, back_heads, second_heads)
        both = both + _flatten(first) @ _flatten(second.swapaxes(1, 2)).T
        total = total + first.sum((1, 2))[:, None] + second.sum((1, 2))
    if not there_heads:
        raise ValueError("there are no traces to compare: trace the same pairs in both directions")
    shares = both / np.maximum(total - both, 1.0)
    order = np.argsort(-shares, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, shares.shape), strict=True)
    return [HeadAgreement(there_heads[i], back_heads[j], float(shares[i, j])) for i, j in places]


def diagonal_share(traces: Iterable[Trace], head: AlignmentHead) -> float:
    """Return the fraction of a head's links that the diagonal baseline has too."""
    same = total = 0
    for trace in traces:
        pairs = head_links(trace, head)
        same += len(pairs & diagonal(len(trace.source.word_spans), len(trace.target.word_spans)))
        total += len(pairs)
    return same / max(total, 1)


def head_links(trace: Trace, head: AlignmentHead) -> Links:
    """Return the word links of one head in a trace."""
    maps = _cross_maps(trace, head.measure)
    if head.layer not in maps:
        known = ", ".join(maps) or "none"
        raise ValueError(f"the trace has no {head.measure} map of {head.layer!r}: choose a layer from {known}")
    weights = maps[head.layer]
    if head.head is not None and head.head >= len(weights):
        raise ValueError(f"there is no head {head.head} in {head.layer}: choose 0 to {len(weights) - 1}")
    return links(_merge(trace, weights.mean(0) if head.head is None else weights[head.head], head.rows))


def links_of_heads(trace: Trace) -> tuple[list[AlignmentHead], HeadLinks]:
    """Return all candidate alignment heads of a trace, and the word links of each.

    The candidates are all combinations of measure, layer, row convention and head; a layer with several heads also has
    the mean over its heads.
    """
    heads: list[AlignmentHead] = []
    found = []
    for measure in get_args(Measure):
        for layer, weights in _cross_maps(trace, measure).items():
            numbers: list[int | None] = [*range(len(weights))]
            if len(weights) > 1:
                numbers.append(None)
                weights = np.concatenate([weights, weights.mean(0, keepdims=True)])
            for rows in get_args(Rows):
                found.append(is_linked(_merge(trace, weights, rows).words))
                heads += [AlignmentHead(layer=layer, head=head, rows=rows, measure=measure) for head in numbers]
    if not found:
        raise ValueError("this model cannot align, as it has no cross-attention: trace with another model")
    return heads, np.concatenate(found)


def _cross_maps(trace: Trace, measure: Measure) -> dict[str, Float[ndarray, "heads target source"]]:
    maps = trace.attention if measure == "attention" else trace.norms
    return {name: np.asarray(maps[name], np.float64) for name in trace.names("cross") if name in maps}


def _merge(trace: Trace, weights: Float[ndarray, "*heads target source"], rows: Rows) -> WordMap:
    num_words = len(trace.source.word_spans), len(trace.target.word_spans)
    return word_map(weights, trace.source.words, trace.target.words, rows, num_words)


def _same_heads(number: int, known: list[AlignmentHead], heads: list[AlignmentHead]) -> list[AlignmentHead]:
    """Return `heads`; raise ValueError if `heads` and `known`, the heads of the previous traces, differ."""
    if known and known != heads:
        raise ValueError(f"trace {number} and trace 1 have different attention maps: trace all pairs with one model")
    return heads


def _counts(found: HeadLinks, gold: Gold) -> Int[ndarray, "heads 4"]:
    """Count the links of one sentence by head, in the format of `AlignmentScore.counts`."""
    sure, possible = (_mark(pairs, found.shape[1:]) for pairs in (gold.sure, gold.possible))
    total, in_sure, in_possible = (kept.sum((1, 2)) for kept in (found, found & sure, found & possible))
    return np.stack([total, np.full_like(total, len(gold.sure)), in_sure, in_possible], axis=1)


def _mark(pairs: Links, shape: tuple[int, ...]) -> Bool[ndarray, "target_words source_words"]:
    marks = np.zeros(shape, np.bool_)
    for source, target in pairs:
        marks[target, source] = True
    return marks


def _flatten(found: HeadLinks) -> Float[ndarray, "heads cells"]:
    return found.reshape(len(found), -1).astype(np.float64)
