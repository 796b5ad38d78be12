"""An explanation in the terminal: at most 80 columns, with bars for weights; plain text when piped."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from dragoman.inspection.explanation.explain import PAPER, ROUNDING, Explanation
from dragoman.inspection.explanation.worksheet import Row, Step, Table, format_number
from dragoman.inspection.labels import clean, shorten
from dragoman.inspection.terminal import padded

WIDTH: Final = 80
INDENT: Final = 3
LONGEST_BAR, SHORTEST_BAR = 20, 10
LONGEST_LABEL, SHORTEST_LABEL = 24, 6
"""The largest and the smallest width of a label, in cells; wide numbers make labels shorter."""
MOST_KEYS: Final = 14
"""The maximum number of table rows for keys; the keys with the least weight share one row."""

Paragraph = tuple[str, int, str]
"""A text, its indent and its style; lines of tables, which must not be wrapped, have the style "table"."""

_MARKS: Final = {"explained": ">", "hidden": "x", "": " "}
_ASCII: Final = str.maketrans(
    {"√": "sqrt ", "·": "*", "…": "...", "Σ": "sum", "∞": "inf", "▁": "_", "█": "#", "▏": ".", "\u0303": "~"}
    | dict.fromkeys("“”", '"')
)


@dataclass(frozen=True)
class ExplanationText:
    """An explanation that rich can print; width, colour and encoding follow the console."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(WIDTH, options.max_width)
        for text, indent, style in self._paragraphs(width):
            text = text.translate(_ASCII) if options.ascii_only else text
            lines = [text] if style == "table" else Text(text).wrap(console, width - indent)
            for line in lines:
                yield Text((" " * indent + str(line)).rstrip(), style="" if style == "table" else style, no_wrap=True)

    def _paragraphs(self, width: int) -> Iterator[Paragraph]:
        shown = self.explanation
        yield f"{shown.title}\n", 0, "bold"
        target = "" if shown.target is None else f"\n{clean(shown.target.text)}  ({shown.target_origin})"
        yield f"{clean(shown.source.text)}{target}\n", 2, ""
        yield "\n".join(shown.choices), 0, ""
        yield f"{ROUNDING} {PAPER}", 0, "dim"
        marks = ["> marks the position that asks"] if shown.keys.own is not None else []
        marks += [] if shown.keys.visible.all() else ["x marks what it may not see"]
        if marks:
            yield f"In the tables, {' and '.join(marks)}.", 0, "dim"
        order = _heaviest_keys(shown)
        for number, step in enumerate(shown.steps, 1):
            yield "", 0, ""
            yield from _step(number, step, order, width)
        yield f"\n{shown.caveats}", 0, ""


def plain_text(explanation: Explanation) -> str:
    """Return an explanation as text without colours, as it is printed when piped."""
    output = StringIO()
    Console(file=output, width=WIDTH, highlight=False, soft_wrap=True, color_system=None).print(
        ExplanationText(explanation)
    )
    return output.getvalue()


def formula(text: str) -> str:
    """Return a formula as plain text, with parentheses in place of the braces after `_` and `^`."""
    return re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)


def _heaviest_keys(explanation: Explanation) -> list[int]:
    """Return the indices of the keys to print, in order: the keys with most weight, and the explained position."""
    weights, own = explanation.weights[explanation.head].tolist(), explanation.keys.own
    if len(weights) <= MOST_KEYS:
        return list(range(len(weights)))
    kept = sorted(range(len(weights)), key=lambda j: -weights[j])[: MOST_KEYS - 1]
    return sorted({*kept, *([] if own is None else [own])})


def _step(number: int, step: Step, order: Sequence[int], width: int) -> Iterator[Paragraph]:
    title = f"{number}. {step.title}"
    gap = width - cell_len(title) - cell_len(step.section)
    yield title + (" " * gap + step.section if gap > 2 else f"\n   {step.section}"), 0, "bold"
    yield step.why, INDENT, ""
    if step.formula:
        yield formula(step.formula), 2 * INDENT, "cyan"
    for block in step.blocks:
        if isinstance(block, str):
            yield block, INDENT, ""
        else:
            yield from ((line, INDENT, "table") for line in _table(block, order))


def _table(table: Table, order: Sequence[int]) -> Iterator[str]:
    rows = [*_shown_rows(table, order), *([] if table.total is None else [table.total])]
    cells = [[format_number(cell) for cell in row.cells] for row in rows]
    widths = [max(map(cell_len, (head, *column))) for head, *column in zip(table.columns, *cells, strict=True)]
    more = f"  … of {table.of}" if table.is_cut else ""
    bars = SHORTEST_BAR + 2 if any(row.bar is not None for row in rows) else 0
    left = WIDTH - INDENT - sum(widths) - 2 * len(widths)
    labels = _labels(rows, left - cell_len(more) - bars)
    margin = max(map(cell_len, labels))
    yield _line("", table.columns, margin, widths) + more
    for row, label, line in zip(rows, labels, cells, strict=True):
        if row is table.total:
            rule = ["-" * width if cell else "" for cell, width in zip(line, widths, strict=True)]
            yield _line("", rule, margin, widths)
        length = round((row.bar or 0) * min(LONGEST_BAR, left - margin - 2))
        bar = "" if row.bar is None else "  " + ("█" * length or "▏" * (row.bar > 0))
        yield _line(label, line, margin, widths) + bar


def _labels(rows: Sequence[Row], width: int) -> list[str]:
    """Return the row labels with their marks, truncated to the width that the numbers leave."""
    is_marked = any(row.mark for row in rows)
    width = max(SHORTEST_LABEL, min(LONGEST_LABEL, width - 2 * is_marked))
    return [(f"{_MARKS[row.mark]} " if is_marked else "") + shorten(clean(row.label), width) for row in rows]


def _shown_rows(table: Table, order: Sequence[int]) -> list[Row]:
    """Return the rows to print; if a table has too many keys, the rows in `order` and one row for all others."""
    left = len(table.rows) - len(order)
    if not table.keys or left <= 0:
        return list(table.rows)
    shown = [table.rows[j] for j in order]
    totals = table.total.cells if table.total is not None else ("",) * len(table.columns)
    rest = tuple(
        total - sum((Decimal(row.cells[i]) for row in shown), Decimal(0)) if isinstance(total, Decimal) else ""
        for i, total in enumerate(totals)
    )
    return [*shown, Row(f"{left} other{'s' if left > 1 else ''}", rest)]


def _line(label: str, cells: Sequence[str], margin: int, widths: Sequence[int]) -> str:
    numbers = "".join("  " + " " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True))
    return padded(label, margin) + numbers
