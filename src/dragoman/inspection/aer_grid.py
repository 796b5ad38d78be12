"""Which head aligns best, by gold: the alignment error rate of every layer, head, row convention and measure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead, LinkRule, Links, Measure, Rows
from dragoman.data.moses import Gold
from dragoman.inspection.aer import AlignmentScore, paired, scored
from dragoman.inspection.alignment_heads import ARGMAX, Sight, all_links, same_heads
from dragoman.inspection.trace import Trace


@dataclass(frozen=True, eq=False)
class AlignmentGrid:
    """The score of every head that was tried."""

    scores: Mapping[AlignmentHead, AlignmentScore]

    def best(self, single: bool = False) -> AlignmentHead:
        """With the lowest error rate, the first if some are equal; `single` leaves the means of heads out."""
        allowed = (head for head in self.scores if head.head is not None or not single)
        return min(allowed, key=lambda head: self.scores[head].aer)

    def panel(self, rows: Rows, measure: Measure) -> tuple[list[str], Float[ndarray, "layers columns"]]:
        """Error rates for one picture: the layers' names, and a column for each head, the last for their mean.

        A layer with a single head has no mean: its last column is NaN.
        """
        asked = {head: score for head, score in self.scores.items() if (head.rows, head.measure) == (rows, measure)}
        layers = list(dict.fromkeys(head.layer for head in asked))
        num_heads = max((head.head + 1 for head in asked if head.head is not None), default=0)
        rates = np.full((len(layers), num_heads + 1), np.nan)
        for head, score in asked.items():
            rates[layers.index(head.layer), num_heads if head.head is None else head.head] = score.aer
        return layers, rates

    def table(self) -> list[dict[str, str | int | float | None]]:
        """A row for each, best first, ready for JSON or CSV."""
        ranked = sorted(self.scores.items(), key=lambda item: item[1].aer)
        return [
            {**head.model_dump(), "aer": score.aer, "precision": score.precision, "recall": score.recall}
            for head, score in ranked
        ]


def grid(traces: Iterable[Trace], gold: Iterable[Gold], rule: LinkRule = ARGMAX) -> AlignmentGrid:
    """Scores every head of the model that the traces are of. They are read one at a time, none is kept.

    The best of many looks better than it is: choose it on some sentences, and report it on others.
    """
    heads: list[AlignmentHead] = []
    counts = []
    for number, trace, said in paired(traces, gold, ("traces", "lines of gold")):
        sight = all_links(trace, rule)
        _check(number, sight, said)
        heads = same_heads(number, heads, sight.heads)
        counts.append(_counts(sight.links, said))
    if not counts:
        raise ValueError("there are no traces to search: trace some sentences that have gold alignments")
    by_head = np.stack(counts, axis=1)  # [heads, sentences, 4]
    return AlignmentGrid({head: scored(own) for head, own in zip(heads, by_head, strict=True)})


def _counts(found: Bool[ndarray, "heads target_words source_words"], said: Gold) -> Int[ndarray, "heads 4"]:
    """Of one sentence, as a score has them."""
    sure, possible = (_marks(pairs, found.shape[1:]) for pairs in (said.sure, said.possible))
    num_found, in_sure, in_possible = (kept.sum((1, 2)) for kept in (found, found & sure, found & possible))
    return np.stack([num_found, np.full_like(num_found, len(said.sure)), in_sure, in_possible], axis=1)


def _marks(pairs: Links, shape: tuple[int, ...]) -> Bool[ndarray, "target_words source_words"]:
    marks = np.zeros(shape, np.bool_)
    for source, target in pairs:
        marks[target, source] = True
    return marks


def _check(number: int, sight: Sight, said: Gold) -> None:
    num_target, num_source = sight.links.shape[1:]
    for side, size, words in (
        ("source", num_source, {source for source, _ in said.possible}),
        ("target", num_target, {target for _, target in said.possible}),
    ):
        if max(words, default=-1) >= size:
            raise ValueError(
                f"sentence {number}: gold speaks of word {max(words) + 1} of a {side} with {size} words: "
                "is it of other text, or are its sides swapped?"
            )
