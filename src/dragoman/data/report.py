"""What the cleaning found: counts that add up over chunks, and a few examples of each problem."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field
from rich.table import Table

from dragoman.config import Config
from dragoman.data.problem import KINDS, Policy, Problem

EXAMPLES: Final = 5
"""Kept of each problem: the first ones."""

_WIDTH = 80


class Example(Config):
    """One pair with a problem."""

    line: int = Field(description="its line in the corpus, counted from 1 as editors do")
    source: str = Field(description="how it starts, with what cannot be seen written out")
    target: str = Field(description="the same")
    note: str = Field("", description="what else is known, such as where a leaked pair was held out")


class Report(Config):
    """A pair may have several problems: it counts for each, but once in the totals."""

    pairs: int = Field(0, description="pairs read")
    dropped: int = Field(0, description="pairs that went")
    fixed: int = Field(0, description="pairs that stayed, mended")
    counts: Mapping[Problem, Mapping[Policy, int]] = Field({}, description="pairs with a problem, by what was done")
    examples: Mapping[Problem, tuple[Example, ...]] = Field({}, description=f"the first {EXAMPLES} of each")

    @property
    def stayed(self) -> int:
        """Pairs that are left."""
        return self.pairs - self.dropped

    def count(self, problem: Problem) -> int:
        """Pairs with this problem, whatever was done about it."""
        return sum(self.counts.get(problem, {}).values())

    def __add__(self, other: "Report") -> "Report":
        """The report of both: of this part, and of one that comes after it."""
        found = [problem for problem in Problem if problem in self.counts or problem in other.counts]
        return Report(
            pairs=self.pairs + other.pairs,
            dropped=self.dropped + other.dropped,
            fixed=self.fixed + other.fixed,
            counts={problem: _sum(self.counts.get(problem, {}), other.counts.get(problem, {})) for problem in found},
            examples={
                problem: (*self.examples.get(problem, ()), *other.examples.get(problem, ()))[:EXAMPLES]
                for problem in found
            },
        )

    def table(self) -> Table:
        """For people."""
        share = f"{self.stayed / self.pairs:.2%}" if self.pairs else "none"
        table = Table(
            title=f"{self.pairs:,} pairs read, {self.dropped:,} dropped, {self.fixed:,} fixed; {share} stayed",
            title_justify="left",
        )
        for column in ("problem", "pairs", "done", "first at line", "what it is"):
            table.add_column(column, justify="right" if column in ("pairs", "first at line") else "left")
        for problem, counts in self.counts.items():
            first = self.examples.get(problem, ())
            line = f"{first[0].line:,}" if first else ""
            for policy, count in counts.items():
                table.add_row(problem.value, f"{count:,}", policy, line, KINDS[problem].meaning)
        return table


def _sum(one: Mapping[Policy, int], other: Mapping[Policy, int]) -> dict[Policy, int]:
    policies: tuple[Policy, ...] = ("drop", "fix", "keep")
    return {
        policy: one.get(policy, 0) + other.get(policy, 0) for policy in policies if policy in one or policy in other
    }


def excerpt(raw: bytes) -> str:
    """The start of a line with everything in it visible."""
    text = raw[: 4 * _WIDTH].decode(errors="backslashreplace")
    shown = "".join(letter if letter.isprintable() else _written_out(letter) for letter in text[:_WIDTH])
    return shown + "…" if len(raw) > 4 * _WIDTH or len(text) > _WIDTH else shown


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
