"""Metrics for linearised constituency trees: labelled F1 by the rules of evalb, and the share of well-formed trees.

A line such as `(S (NP XX )NP (VP XX XX )VP . )S` is the tree of a sentence. A symbol that begins with a bracket opens
or closes a constituent; any other symbol is a leaf, which stands for a word.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from dragoman.data.bracketed_trees import PUNCTUATION, ROOTS, shorten_label
from dragoman.evaluation.count_metric import CountMetric, ratio

_SAME_LABEL: Final = {"PRT": "ADVP"}
"""Labels that are equal in COLLINS.prm."""


class LinearTree(NamedTuple):
    """The leaves of a tree and its constituents, as labels with the first leaf and the one after the last."""

    leaves: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]

    def is_over(self, reference: "LinearTree") -> bool:
        """Return True if the tree has as many leaves as the reference."""
        return len(self.leaves) == len(reference.leaves)

    def constituents(self, words: Sequence[str]) -> Counter[tuple[str, int, int]]:
        """Return the constituents and how often each occurs, over the words that are no punctuation.

        Functions (`-SBJ`, `=2`), the root and what covers punctuation alone are left out.
        """
        before = [0, *accumulate(word not in PUNCTUATION for word in words)]
        short = ((shorten_label(label), start, end) for label, start, end in self.spans)
        return Counter(
            (_SAME_LABEL.get(label, label), before[start], before[end])
            for label, start, end in short
            if label not in ROOTS and before[start] < before[end]
        )


class LabelledF1(CountMetric):
    """The harmonic mean of precision and recall of constituents, by label and span."""

    name = "F1"
    unit = "constituent"

    def counts(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the numbers of matching constituents, of those of the output and of those of its nearest reference.

        The leaves of the reference say which words are punctuation. An output that is no tree over these words has no
        constituents.
        """
        tree = read_tree(hypothesis)
        rows = []
        for reference in map(_read_reference, references):
            right = reference.constituents(reference.leaves)
            found = tree.constituents(reference.leaves) if tree and tree.is_over(reference) else Counter()
            rows.append([float(each.total()) for each in (found & right, found, right)])
        return max(rows, key=self.value)

    def value(self, counts: Sequence[float]) -> float:
        """Return F1 in percent."""
        matching, found, right = counts
        return ratio(2.0 * matching, found + right, empty=0.0)


class WellFormed(CountMetric):
    """The share of lines that are trees with as many leaves as a reference."""

    name = "well-formed"
    unit = "line"

    def counts(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return 1 if the line is a tree over the words of a reference, else 0, and 1 for the line."""
        tree = read_tree(hypothesis)
        right = tree is not None and any(tree.is_over(reference) for reference in map(_read_reference, references))
        return [float(right), 1.0]

    def value(self, counts: Sequence[float]) -> float:
        """Return the share in percent."""
        right, lines = counts
        return ratio(right, lines, empty=0.0)


def read_tree(line: str) -> LinearTree | None:
    """Return the tree of a line, or None if its brackets do not match or a constituent has no leaf."""
    leaves: list[str] = []
    spans: list[tuple[str, int, int]] = []
    is_open: list[tuple[str, int]] = []
    for symbol in line.split():
        if symbol[0] == "(":
            is_open.append((symbol[1:], len(leaves)))
        elif symbol[0] == ")":
            label, start = is_open.pop() if is_open else ("", len(leaves))
            if label != symbol[1:] or start == len(leaves):
                return None
            spans.append((label, start, len(leaves)))
        else:
            leaves.append(symbol)
    return None if is_open else LinearTree(tuple(leaves), tuple(spans))


def _read_reference(line: str) -> LinearTree:
    tree = read_tree(line)
    if tree is None:
        raise ValueError(f"the reference {line!r} is not a tree such as `(NP XX XX )NP`: fix its brackets")
    return tree
