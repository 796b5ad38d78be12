"""The course of a training in a line for each moment: how sharp attention was, what it aligned, the roles of heads."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from dragoman.inspection.evolution import ROLES, Course, Evolution
from dragoman.inspection.heads import Label
from dragoman.inspection.moments import Moment
from dragoman.inspection.trace import Kind

_BAR: Final = 8
"""The width of a bar, in cells."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Line:
    """What is said of one moment."""

    moment: Moment
    kept: bool
    entropy: float | None
    """The mean over the heads."""
    head: Course
    """The one that stands out: of cross-attention the best aligned, else the sharpest."""
    value: float | None
    """Its alignment, or its entropy."""
    roles: dict[Label, int]
    """How many heads have each; a label that no head ever has is left out."""


def summary(evolution: Evolution, kind: Kind | None = None) -> list[Line]:
    """All moments. Without a kind, roles are those of all heads, and the rest is of the first kind there is: cross."""
    heads = evolution.of(kind or evolution.kinds[0])
    counted = evolution.of(kind)
    labels = [label for label in ROLES if any(label in course.label for course in counted)]
    lines = []
    for i, moment in enumerate(evolution.moments):
        known = [value for course in heads if (value := course.entropy[i]) is not None]
        head = evolution.telling(heads[0].kind, i)
        value = head.alignment[i] if head.kind == "cross" else head.entropy[i]
        roles = Counter(course.label[i] for course in counted)
        entropy = sum(known) / len(known) if known else None
        lines.append(Line(moment, i == evolution.kept, entropy, head, value, {label: roles[label] for label in labels}))
    return lines


def headings(lines: list[Line]) -> list[str]:
    """Of the columns, in as few letters as say it; roles have their letter."""
    standing_out = "best aligned head" if lines[0].head.kind == "cross" else "sharpest head"
    return ["update", "", "BLEU", "entropy", standing_out, *(ROLES[label][0] for label in lines[0].roles)]


def table(lines: list[Line], *, plain_letters: bool = False) -> Table:
    """For a terminal of 80 columns, with bars from 0 to 1; `plain_letters` where it has nothing but ASCII."""
    shown = Table(box=None, padding=(0, 1, 0, 0))
    for name, justify in zip(headings(lines), "rlrll" + "r" * len(lines[0].roles), strict=True):
        shown.add_column(name, justify="right" if justify == "r" else "left", no_wrap=True)
    for line in lines:
        shown.add_row(
            _when(line.moment),
            "*" if line.kept else "",
            _number(line.moment.bleu, 1),
            f"{_number(line.entropy)} {bar(line.entropy, plain_letters)}",
            f"{_number(line.value)} {bar(line.value, plain_letters)} {line.head.short}",
            *(str(count or "-") for count in line.roles.values()),
        )
    return shown


def legend(lines: list[Line]) -> str:
    """What the letters mean."""
    roles = ", ".join(f"{ROLES[label][0]} {label}" for label in lines[0].roles)
    return f"Heads are counted by role: {roles}. L1H0 is layer 1 head 0; * marks the weights that are kept."


def bar(value: float | None, plain_letters: bool = False) -> str:
    """From 0 to 1, always of the same width."""
    eighths = round(8 * _BAR * min(1.0, max(0.0, value or 0.0)))
    if plain_letters:
        return ("#" * round(eighths / 8)).ljust(_BAR)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def _when(moment: Moment) -> str:
    return "average" if moment.is_average else f"{moment.update:,}"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
