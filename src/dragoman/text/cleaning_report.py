"""The cleaning report: the number of pairs with each problem, and a few examples; reports of chunks can be added."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pydantic import Field
from rich.table import Table

from dragoman.config import Config
from dragoman.text.cleaning import Policy, Problem

EXAMPLES: Final = 5
"""Number of examples per problem."""

_WIDTH = 80


class ProblemExample(Config):
    """An example of a sentence pair with a problem."""

    line: int = Field(description="line number of the pair in the corpus, from 1")
    source: str = Field(description="start of the source, with invisible characters escaped")
    target: str = Field(description="start of the target, with invisible characters escaped")
    note: str = Field("", description="file and line of the held-out pair, for leaks")


class CleaningReport(Config):
    """The cleaning report of a corpus or chunk.

    A pair with several problems counts for each problem, but only once in the totals.
    """

    pairs: int = Field(0, description="number of pairs read")
    dropped: int = Field(0, description="number of pairs dropped")
    fixed: int = Field(0, description="number of pairs fixed and not dropped")
    counts: Mapping[Problem, Mapping[Policy, int]] = Field({}, description="number of pairs by problem and policy")
    examples: Mapping[Problem, tuple[ProblemExample, ...]] = Field({}, description=f"first {EXAMPLES} pairs by problem")

    @property
    def stayed(self) -> int:
        """The number of pairs that were not dropped."""
        return self.pairs - self.dropped

    def count(self, problem: Problem) -> int:
        """Return the number of pairs with this problem, under any policy."""
        return sum(self.counts.get(problem, {}).values())

    def __add__(self, other: "CleaningReport") -> "CleaningReport":
        """Return the sum of two reports; `other` must be of a later chunk of the corpus."""
        both = (self, other)
        counts, examples = {}, {}
        for problem in Problem:
            if any(problem in each.counts for each in both):
                counts[problem] = sum((Counter(each.counts.get(problem, {})) for each in both), Counter())
                examples[problem] = tuple(some for each in both for some in each.examples.get(problem, ()))[:EXAMPLES]
        totals = {name: getattr(self, name) + getattr(other, name) for name in ("pairs", "dropped", "fixed")}
        return CleaningReport(**totals, counts=counts, examples=examples)

    def table(self) -> Table:
        """Return the report as a table for the terminal."""
        share = f"{self.stayed / self.pairs:.2%}" if self.pairs else "none"
        title = f"{self.pairs:,} pairs read, {self.dropped:,} dropped, {self.fixed:,} fixed; {share} stayed"
        table = Table(title=title, title_justify="left")
        for column in ("problem", "pairs", "policy", "first at line", "description"):
            table.add_column(column, justify="right" if column in ("pairs", "first at line") else "left")
        for problem, counts in self.counts.items():
            first = self.examples.get(problem, ())
            line = f"{first[0].line:,}" if first else ""
            for policy, count in counts.items():
                table.add_row(problem.value, f"{count:,}", policy, line, problem.meaning)
        return table


def excerpt(raw: bytes) -> str:
    """Return the start of a line, with invisible characters escaped."""
    text = raw[: 4 * _WIDTH].decode(errors="backslashreplace")
    visible = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text[:_WIDTH]
    )
    return visible + "…" if len(raw) > 4 * _WIDTH or len(text) > _WIDTH else visible
