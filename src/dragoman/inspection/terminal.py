"""An attention map in the terminal: colour where there is colour, shades or digits where there is none.

Up to 60 tokens a row of the map is a line, with its label. Longer maps are drawn in half-blocks, two rows a line, and
what still does not fit is thinned: a cell then shows the largest of several values, and the caption says of how many.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from dragoman.inspection.labels import clean, is_right_to_left, shorten

LONGEST: Final = 60
"""Up to so many tokens each has its line and its label."""
ROW_LABEL, COLUMN_LABEL = 14, 8
"""Labels are cut to so many cells in width, and so many lines in height."""

_RAMP: Final = np.array([(0, 34, 78), (67, 78, 108), (125, 124, 120), (188, 174, 108), (254, 232, 56)])
"""Cividis in five steps: its luminance rises all the way, so that it reads without hue as well."""
_SHADES, _DIGITS = " ░▒▓█", " 123456789"


def heat_map(
    matrix: Float[ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    width: int | None = None,
    colour: bool | None = None,
) -> "HeatMap":
    """A map for rich to print; width and colour are the console's own unless given."""
    if matrix.shape != (len(rows), len(columns)):
        raise ValueError(f"a map of {matrix.shape} needs as many labels, not {(len(rows), len(columns))}")
    return HeatMap(matrix, tuple(map(clean, rows)), tuple(map(clean, columns)), caption, width, colour)


@dataclass(frozen=True)
class HeatMap:
    """What `heat_map` gives: it finds out about width and colour when it is printed."""

    matrix: Float[ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    caption: str
    width: int | None
    colour: bool | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        width = min(self.width or options.max_width, options.max_width)
        colour = console.color_system is not None if self.colour is None else self.colour
        page = _laid_out(self, width, _Ink(float(self.matrix.max(initial=0)), colour, options.ascii_only))
        for line in page.lines():
            yield from line
            yield Segment.line()
        yield Text(f"{page.ink.legend()}{page.thinned()}", style="dim")
        yield Text(self.caption, style="dim")


@dataclass(frozen=True)
class _Ink:
    """How a value becomes something to see."""

    largest: float
    colour: bool
    ascii_only: bool

    def mark(self, upper: float, lower: float | None, width: int) -> Segment:
        """One cell; with a lower value, a half-block of two."""
        if not self.colour:
            return Segment(self._letter(upper) * width)
        if lower is None:
            return Segment(" " * width, Style(bgcolor=self._shade(upper)))
        return Segment("▀" * width, Style(color=self._shade(upper), bgcolor=self._shade(lower)))

    def legend(self) -> str:
        """Which mark means how much."""
        if not self.largest:
            return "nothing to see: it is 0 everywhere"
        if self.colour:
            return f"dark = 0, bright = {self.largest:.2f}"
        if self.ascii_only:
            return f"0 to 9 = tenths of {self.largest:.2f}, rounded down; blank = less than one"
        return "  ".join(f"{shade} from {self.largest * i / 5:.2f}" for i, shade in enumerate(_SHADES) if i)

    def _letter(self, value: float) -> str:
        letters = _DIGITS if self.ascii_only else _SHADES
        return letters[min(int(self._share(value) * len(letters)), len(letters) - 1)]

    def _shade(self, value: float) -> Color:
        at = self._share(value) * (len(_RAMP) - 1)
        return Color.from_rgb(*(round(np.interp(at, range(len(_RAMP)), channel)) for channel in _RAMP.T))

    def _share(self, value: float) -> float:
        return value / self.largest if self.largest else 0.0


@dataclass(frozen=True)
class _Page:
    """A map cut to what fits."""

    matrix: Float[ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    ink: _Ink
    cell: int
    """How many characters wide a column is."""
    rows_a_line: int
    factor: int
    """So many tokens, each way, share a cell."""

    def thinned(self) -> str:
        return f"; a cell is the largest of {self.factor} x {self.factor}" if self.factor > 1 else ""

    def lines(self) -> Iterator[list[Segment]]:
        margin = max(map(cell_len, (shorten(row, ROW_LABEL) for row in self.rows)), default=0)
        yield from ([Segment(" " * (margin + 1)), *line] for line in _headings(self.columns, self.cell))
        for i in range(0, len(self.rows), self.rows_a_line):
            label = Segment(padded(shorten(self.rows[i], ROW_LABEL), margin) + " ")
            below = self.matrix[i + 1] if i + 1 < len(self.rows) else np.zeros_like(self.matrix[i])
            lower = below.tolist() if self.rows_a_line == 2 else [None] * len(below)
            pairs = zip(self.matrix[i].tolist(), lower, strict=True)
            yield [label, *(self.ink.mark(value, under, self.cell) for value, under in pairs)]


def _laid_out(drawn: HeatMap, width: int, ink: _Ink) -> _Page:
    """Two characters a cell and a line a row where there is room; else one character, half a line, and thinning."""
    room = max(1, width - ROW_LABEL - 2)
    if max(drawn.matrix.shape, default=0) <= LONGEST and 2 * len(drawn.columns) <= room:
        return _Page(drawn.matrix, drawn.rows, drawn.columns, ink, cell=2, rows_a_line=1, factor=1)
    factor = -(-len(drawn.columns) // room)
    matrix = _largest(drawn.matrix, factor)
    # Without colour there are no half-blocks.
    rows_a_line = 2 if ink.colour else 1
    return _Page(matrix, drawn.rows[::factor], drawn.columns[::factor], ink, 1, rows_a_line, factor)


def _largest(matrix: Float[ndarray, "rows columns"], factor: int) -> Float[ndarray, "fewer_rows fewer_columns"]:
    """Of every square of `factor` cells a side."""
    starts = [np.arange(0, size, factor) for size in matrix.shape]
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts[0], axis=0), starts[1], axis=1))


def _headings(columns: Sequence[str], cell: int) -> Iterator[list[Segment]]:
    """Column labels from top to bottom, standing on the map; of narrow columns every fourth has one."""
    every = 1 if cell == 2 else 4
    letters = [_letters(column) for column in columns[::every]]
    # A label is as wide as the columns up to the next one, so that a wide letter has its room.
    spans = [min(every, len(columns) - i) for i in range(0, len(columns), every)]
    height = max(map(len, letters), default=0)
    for above in range(height, 0, -1):
        at = [label[-above] if above <= len(label) else "" for label in letters]
        yield [Segment(padded(letter, cell * span)) for letter, span in zip(at, spans, strict=True)]


def _letters(label: str) -> list[str]:
    """A label's letters, each with the marks that stand on it; a long one ends in dots."""
    found: list[str] = []
    for letter in label:
        if found and cell_len(letter) == 0:
            found[-1] += letter
        else:
            found.append(letter)
    return found if len(found) <= COLUMN_LABEL else [*found[: COLUMN_LABEL - 1], "…"]


def padded(label: str, width: int) -> str:
    """Filled with blanks to so many cells; a right-to-left label is isolated, so that it turns nothing but itself."""
    blanks = " " * max(0, width - cell_len(label))
    return f"\u2068{label}\u2069{blanks}" if is_right_to_left(label) else label + blanks
