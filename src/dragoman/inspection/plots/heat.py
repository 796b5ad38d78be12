"""A matrix as a heat map with a label for each row and column."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from numpy import ndarray

from dragoman.inspection.plots.canvas import COLOURS, FAINT, SMALL, caption, lettering, sheet, short

MOST_VECTOR_CELLS: Final = 50 * 50
"""More cells than these are drawn as one picture: as paths they would make a file that no viewer likes."""
MOST_LABELS: Final = 60
_CELL: Final = 0.21
"""A cell's side in inches, where there are not too many."""


def heat(
    matrix: Float[ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    text: str,
    ax: Axes | None = None,
    *,
    scale: str,
    empty: Sequence[int] = (),
) -> Axes:
    """Darkness is the size of a value, a dot says that it is below zero; `scale` is written on the colour bar. Rows
    that are left empty on purpose are grey.
    """
    num_rows, num_columns = matrix.shape
    ax = sheet(ax, _side(num_columns, 4.8) + 0.8, _side(num_rows, 2.4) + 0.6)
    mesh = shaded(ax, np.abs(matrix), np.arange(num_columns + 1) - 0.5, np.arange(num_rows + 1) - 0.5)
    for row in empty:
        ax.axhspan(row - 0.5, row + 0.5, color=FAINT)
    below = np.argwhere(matrix < 0)
    if len(below):
        ax.scatter(below[:, 1], below[:, 0], s=5, color="white", edgecolors="black", linewidths=0.5)
    ax.invert_yaxis()
    _label(ax, rows, columns)
    caption(ax, text + thinned(ticks(num_rows), ticks(num_columns)))
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.04, pad=0.02, aspect=max(12.0, _height(ax) / 0.14))
    bar.set_label(scale, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    return ax


def shaded(
    ax: Axes,
    matrix: Float[ndarray, "rows columns"],
    x: Float[ndarray, " columns_and_one"],
    y: Float[ndarray, " rows_and_one"],
    largest: float | None = None,
    num_cells: int | None = None,
) -> QuadMesh:
    """Cells between these lines; as paths while they are few (`num_cells` counts those of the whole picture)."""
    raster = (matrix.size if num_cells is None else num_cells) > MOST_VECTOR_CELLS
    top = float(matrix.max(initial=0)) if largest is None else largest
    return ax.pcolormesh(x, y, matrix, cmap=COLOURS, vmin=0, vmax=top or 1, rasterized=raster)


def ticks(count: int) -> range:
    """Which of so many labels are shown: at most `MOST_LABELS`, evenly."""
    return range(0, count, max(1, -(-count // MOST_LABELS)))


def thinned(down: range, across: range) -> str:
    """What is to be said where not every label is shown."""
    named = [f"one {what} in {one.step}" for what, one in (("row", down), ("column", across)) if one.step > 1]
    return f" There is room for the name of {' and '.join(named)}." if named else ""


def _label(ax: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    style = lettering([*rows, *columns])
    across, down = ticks(len(columns)), ticks(len(rows))
    ax.set_xticks(across, short(columns[i] for i in across), rotation=90, **style)
    ax.set_yticks(down, short(rows[i] for i in down), **style)
    ax.tick_params(length=0)
    ax.spines[:].set_color("#bbbbbb")


def _height(ax: Axes) -> float:
    """In inches, about."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return float(figure.get_figheight() * ax.get_position().height)


def _side(count: int, least: float) -> float:
    return float(np.clip(_CELL * count + 1.2, least, 14))
