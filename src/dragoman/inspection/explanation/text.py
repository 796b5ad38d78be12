"""An explanation in the terminal: at most 80 columns, bars for weights, and nothing but text where it is piped."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from dragoman.inspection.explanation.board import Row, Step, Table, plain
from dragoman.inspection.explanation.explaining import PAPER, ROUNDING, Explanation
from dragoman.inspection.labels import clean, shorten
from dragoman.inspection.terminal import padded

WIDTH: Final = 80
INDENT: Final = 3
BAR: Final = 20
LABEL, SHORTEST = 24, 6
"""Labels are cut to so many cells, and to fewer where the numbers are wide."""
LONGEST: Final = 14
"""Of more keys than that, the heaviest are shown, and the others together."""

_MARKS: Final = {"explained": ">", "hidden": "x", "": " "}
_ASCII: Final = str.maketrans(
    {"√": "sqrt ", "·": "*", "…": "...", "Σ": "sum", "∞": "inf", "▁": "_", "█": "#", "▏": ".", "\u0303": "~"}
    | dict.fromkeys("“”", '"')
)


def lesson(explanation: Explanation) -> "Lesson":
    """An explanation for rich to print."""
    return Lesson(explanation)


@dataclass(frozen=True)
class Lesson:
    """What `lesson` gives: it finds out about width, colour and letters when it is printed."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(WIDTH, options.max_width)
        for line, indent, style in self._paragraphs(width):
            said = line.translate(_ASCII) if options.ascii_only else line
            wrapped = [said] if style == "table" else Text(said).wrap(console, width - indent)
            for part in wrapped:
                yield Text(" " * indent + str(part).rstrip(), style="" if style == "table" else style, no_wrap=True)

    def _paragraphs(self, width: int) -> Iterator[tuple[str, int, str]]:
        """Each with how far it is indented, and its style; lines of tables must not be wrapped."""
        shown = self.explanation
        yield shown.title, 0, "bold"
        yield "", 0, ""
        yield clean(shown.source.text), 2, ""
        if shown.target is not None:
            whose = "its own translation" if shown.free else "as given: teacher forcing"
            yield f"{clean(shown.target.text)}  ({whose})", 2, ""
        yield "", 0, ""
        for line in shown.chosen:
            yield line, 0, ""
        yield f"{ROUNDING} {PAPER}", 0, "dim"
        order = _heaviest(shown)
        marks = ["> marks the position that asks"] if shown.keys.asking is not None else []
        marks += [] if shown.keys.visible.all() else ["x marks what it may not see"]
        if marks:
            yield f"In the tables, {' and '.join(marks)}.", 0, "dim"
        for number, step in enumerate(shown.steps, 1):
            yield "", 0, ""
            yield from _step(number, step, order, width)
        yield "", 0, ""
        yield shown.caveats, 0, ""


def formula(text: str) -> str:
    """A formula on one line: what is raised or lowered as a whole is put in brackets."""
    return re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)


def _heaviest(explanation: Explanation) -> list[int]:
    """Which keys are shown, in their order."""
    weights = explanation.weights[explanation.head].tolist()
    if len(weights) <= LONGEST:
        return list(range(len(weights)))
    kept = sorted(range(len(weights)), key=lambda j: -weights[j])[: LONGEST - 1]
    asking = explanation.keys.asking
    return sorted({*kept, *([] if asking is None else [asking])})


def _step(number: int, step: Step, order: Sequence[int], width: int) -> Iterator[tuple[str, int, str]]:
    title = f"{number}. {step.title}"
    room = width - cell_len(title) - cell_len(step.section)
    yield title + (" " * room + step.section if room > 2 else f"\n   {step.section}"), 0, "bold"
    yield step.why, INDENT, ""
    if step.formula:
        yield formula(step.formula), 2 * INDENT, "cyan"
    for block in step.blocks:
        if isinstance(block, str):
            yield block, INDENT, ""
        else:
            for line in _table(block, order):
                yield line, INDENT, "table"


def _table(table: Table, order: Sequence[int]) -> Iterator[str]:
    every = [*_shown(table, order), *([] if table.total is None else [table.total])]
    cells = [[plain(cell) for cell in row.cells] for row in every]
    widths = [max(map(cell_len, (head, *column))) for head, *column in zip(table.columns, *cells, strict=True)]
    more = f"  … of {table.of}" if table.goes_on else ""
    bars = 12 if any(row.bar is not None for row in every) else 0
    labels = _labels(every, WIDTH - INDENT - sum(widths) - 2 * len(widths) - cell_len(more) - bars)
    margin = max(map(cell_len, labels))
    room = min(BAR, WIDTH - INDENT - margin - sum(widths) - 2 * len(widths) - 2)
    yield _line("", table.columns, margin, widths) + more
    for row, label, line in zip(every, labels, cells, strict=True):
        if row is table.total:
            rule = ["-" * width if cell else "" for cell, width in zip(line, widths, strict=True)]
            yield _line("", rule, margin, widths)
        bar = "" if row.bar is None else "  " + _bar(row.bar, room)
        yield _line(label, line, margin, widths) + bar


def _labels(rows: Sequence[Row], room: int) -> list[str]:
    """What stands to the left, cut to what the numbers leave, with the marks in front."""
    marked = any(row.mark for row in rows)
    width = max(SHORTEST, min(LABEL, room - 2 * marked))
    return [(f"{_MARKS[row.mark]} " if marked else "") + shorten(clean(row.label), width) for row in rows]


def _shown(table: Table, order: Sequence[int]) -> list[Row]:
    """Its rows; of too many keys the heaviest, and a row for the rest, which says what is left of each sum."""
    left = len(table.rows) - len(order)
    if not table.keys or left <= 0:
        return list(table.rows)
    shown = [table.rows[j] for j in order]
    total = table.total.cells if table.total is not None else ("",) * len(table.columns)
    rest = tuple(
        sum_ - sum((Decimal(row.cells[i]) for row in shown), Decimal(0)) if isinstance(sum_, Decimal) else ""
        for i, sum_ in enumerate(total)
    )
    return [*shown, Row(f"{left} other{'s' if left > 1 else ''}", rest)]


def _line(label: str, cells: Sequence[str], margin: int, widths: Sequence[int]) -> str:
    numbers = "".join("  " + " " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True))
    return padded(label, margin) + numbers


def _bar(share: float, room: int) -> str:
    return "█" * round(share * room) or ("▏" if share > 0 else "")
