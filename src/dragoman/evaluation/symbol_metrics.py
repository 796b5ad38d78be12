"""Metrics for lines of symbols, such as phonemes or actions: error rate, share of wrong lines, exact match.

Symbols are separated by spaces. With several references, the nearest one counts.
"""

from collections.abc import Sequence

from dragoman.evaluation.count_metric import CountMetric, ratio


class PhonemeErrorRate(CountMetric):
    """The number of insertions, deletions and substitutions, divided by the number of phonemes of the references."""

    name = "PER"
    unit = "symbol"

    def counts(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the edits to the nearest reference, and its length: of equally near ones, the longest."""
        symbols, known = hypothesis.split(), [reference.split() for reference in references]
        edits, minus_length = min((edit_distance(symbols, reference), -len(reference)) for reference in known)
        return [float(edits), float(-minus_length)]

    def value(self, counts: Sequence[float]) -> float:
        """Return the error rate in percent, which may exceed 100."""
        edits, length = counts
        return ratio(edits, length, 100.0 if edits else 0.0)


class ExactMatch(CountMetric):
    """The share of lines that equal a reference, symbol by symbol."""

    name = "exact"
    unit = "line"

    def counts(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return 1 if the line equals a reference, else 0, and 1 for the line."""
        return [float(hypothesis in references), 1.0]

    def value(self, counts: Sequence[float]) -> float:
        """Return the share in percent."""
        right, lines = counts
        return ratio(right, lines, empty=0.0)


class WordErrorRate(ExactMatch):
    """The share of words whose pronunciation is wrong, one word per line: 100 minus the exact match."""

    name = "WER"

    def value(self, counts: Sequence[float]) -> float:
        """Return the share in percent."""
        return 100.0 - super().value(counts)


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the smallest number of insertions, deletions and substitutions between two sequences (Levenshtein)."""
    above = list(range(len(second) + 1))
    for row, symbol in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            changed = above[column - 1] + (symbol != other)
            current.append(min(changed, above[column] + 1, current[-1] + 1))
        above = current
    return above[-1]
