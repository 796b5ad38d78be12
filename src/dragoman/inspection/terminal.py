"""An attention map in the terminal, in colour or, without colour support, in shades or digits.

Up to 60 tokens, each row of the map is one labelled line. Longer maps are drawn in half-blocks, two rows per line. Maps
that still do not fit are downsampled: a cell then shows the largest of several values, and the legend has the factor.
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
from dragoman.inspection.view import MapView

LONGEST: Final = 60
"""The largest number of tokens for which every row has a labelled line."""
ROW_LABEL, COLUMN_LABEL = 14, 8
"""The largest width of a row label, in cells, and the largest height of a column label, in lines."""

_RAMP: Final = np.array([(0, 34, 78), (67, 78, 108), (125, 124, 120), (188, 174, 108), (254, 232, 56)])
"""The cividis colour map in five steps, whose luminance rises monotonically."""
_SHADES, _DIGITS = " ░▒▓█", " 123456789"


@dataclass(frozen=True)
class HeatMap:
    """An attention map for rich, fitted to the console's width and, if `colour` is None, its colour support."""

    shown: MapView
    colour: bool | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        shown, space = self.shown, max(1, options.max_width - ROW_LABEL - 2)
        colour = console.color_system is not None if self.colour is None else self.colour
        ink = _Ink(float(shown.matrix.max(initial=0)), colour, options.ascii_only)
        # Two characters a cell and a line a row where they fit; else one character, half a line, and thinning.
        is_wide = max(shown.matrix.shape) <= LONGEST and 2 * len(shown.columns) <= space
        factor = 1 if is_wide else -(-len(shown.columns) // space)
        matrix = _largest(shown.matrix, factor)
        rows = [shorten(clean(row), ROW_LABEL) for row in shown.rows[::factor]]
        columns, cell = [clean(column) for column in shown.columns[::factor]], 2 if is_wide else 1
        margin = max(map(cell_len, rows), default=0)
        for heading in _headings(columns, cell):
            yield from (Segment(" " * (margin + 1)), *heading, Segment.line())
        rows_a_line = 2 if colour and not is_wide else 1  # without colour there are no half-blocks
        for i in range(0, len(rows), rows_a_line):
            below = matrix[i + 1] if i + 1 < len(rows) else np.zeros_like(matrix[i])
            lower = below.tolist() if rows_a_line == 2 else [None] * len(below)
            marks = (ink.mark(value, under, cell) for value, under in zip(matrix[i].tolist(), lower, strict=True))
            yield from (Segment(padded(rows[i], margin) + " "), *marks, Segment.line())
        thinned = f"; a cell is the largest of {factor} x {factor}" if factor > 1 else ""
        yield Text(f"{ink.legend()}{thinned}", style="dim")
        yield Text(shown.caption, style="dim")


@dataclass(frozen=True)
class _Ink:
    """The style of map cells: a colour, a shade or a digit for each value."""

    largest: float
    colour: bool
    ascii_only: bool

    def mark(self, upper: float, lower: float | None, width: int) -> Segment:
        """Return one cell; with a lower value, a half-block that shows both values."""
        if not self.colour:
            return Segment(self._letter(upper) * width)
        if lower is None:
            return Segment(" " * width, Style(bgcolor=self._shade(upper)))
        return Segment("▀" * width, Style(color=self._shade(upper), bgcolor=self._shade(lower)))

    def legend(self) -> str:
        """Return the legend of the colours, shades or digits."""
        if not self.largest:
            return "every value is 0"
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


def _largest(matrix: Float[ndarray, "rows columns"], factor: int) -> Float[ndarray, "fewer_rows fewer_columns"]:
    """Return the matrix downsampled by `factor`: the largest value of each square block."""
    starts = [np.arange(0, size, factor) for size in matrix.shape]
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts[0], axis=0), starts[1], axis=1))


def _headings(columns: Sequence[str], cell: int) -> Iterator[list[Segment]]:
    """Yield the lines of vertical column labels, top to bottom; only every fourth narrow column has a label."""
    every = 1 if cell == 2 else 4
    letters = [_letters(column) for column in columns[::every]]
    # A label is as wide as the columns up to the next one, so that a wide letter fits.
    spans = [min(every, len(columns) - i) for i in range(0, len(columns), every)]
    height = max(map(len, letters), default=0)
    for above in range(height, 0, -1):
        at = [label[-above] if above <= len(label) else "" for label in letters]
        yield [Segment(padded(letter, cell * span)) for letter, span in zip(at, spans, strict=True)]


def _letters(label: str) -> list[str]:
    """Split a label into letters, each with its combining marks; a long label ends in an ellipsis."""
    letters: list[str] = []
    for letter in label:
        if letters and cell_len(letter) == 0:
            letters[-1] += letter
        else:
            letters.append(letter)
    return letters if len(letters) <= COLUMN_LABEL else [*letters[: COLUMN_LABEL - 1], "…"]


def padded(label: str, width: int) -> str:
    """Pad a label with blanks to `width` cells; isolate a right-to-left label from the text around it."""
    blanks = " " * max(0, width - cell_len(label))
    return f"\u2068{label}\u2069{blanks}" if is_right_to_left(label) else label + blanks
