"""Alignment error by layer and head, with the best one marked."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy import ndarray

from dragoman.data.alignment import Measure, Rows
from dragoman.inspection.aer_grid import AlignmentGrid
from dragoman.inspection.plots.canvas import SECOND, SMALL, caption, sheet
from dragoman.inspection.plots.heat import shaded
from dragoman.inspection.view import MEASURES, ROWS

_DARK = 0.7
"""On cells darker than this, white is read better than black."""


def aer_grid(
    grid: AlignmentGrid,
    rows: Rows = "written",
    measure: Measure = "attention",
    ax: Axes | None = None,
    *,
    text: str = "",
) -> Axes:
    """One row convention and one measure: darker is better, and every cell says its number.

    `text` says what else is to be known: the gold standard, the model.
    """
    layers, rates = grid.panel(rows, measure)
    ax = sheet(ax, max(4.8, 0.6 * rates.shape[1] + 1.6), max(2.0, 0.42 * len(layers) + 1.2))
    known = ~np.isnan(rates)
    good = np.where(known, 1 - np.nan_to_num(rates), 0)
    shaded(ax, good, np.arange(rates.shape[1] + 1) - 0.5, np.arange(len(layers) + 1) - 0.5, largest=1.0)
    _numbers(ax, rates, good)
    _frame(ax, layers, rates.shape[1] - 1)
    best = _best(ax, rates, known)
    caption(ax, f"alignment error rate, lower is better: {MEASURES[measure]}; {ROWS[rows]}. {best} {text}")
    return ax


def _numbers(ax: Axes, rates: Float[ndarray, "layers columns"], good: Float[ndarray, "layers columns"]) -> None:
    for (layer, head), rate in np.ndenumerate(rates):
        ink = "white" if good[layer, head] > _DARK else "black"
        number = "?" if np.isnan(rate) else f"{rate:.3f}"
        ax.text(head, layer, number, ha="center", va="center", color=ink, fontsize=SMALL - 1)


def _frame(ax: Axes, layers: list[str], num_heads: int) -> None:
    columns = [*(f"head {i}" for i in range(num_heads)), "mean"]
    ax.set_xticks(range(len(columns)), columns, fontsize=SMALL, rotation=45)
    ax.set_yticks(range(len(layers)), [name.removesuffix(".cross_attention") for name in layers], fontsize=SMALL)
    ax.tick_params(length=0)
    ax.invert_yaxis()


def _best(ax: Axes, rates: Float[ndarray, "layers columns"], known: Bool[ndarray, "layers columns"]) -> str:
    """Framed twice, so that the frame is seen on dark cells in grey print as well."""
    if not known.any():
        return "Nothing was measured."
    layer, column = np.unravel_index(int(np.nanargmin(rates)), rates.shape)
    for colour, width in (("white", 5.0), (SECOND, 2.5)):
        corner = (float(column) - 0.45, float(layer) - 0.42)
        ax.add_patch(Rectangle(corner, 0.9, 0.84, fill=False, edgecolor=colour, linewidth=width))
    which = "mean" if column == rates.shape[1] - 1 else f"head {column}"
    return f"Framed, the best: layer {layer}, {which}, {rates[layer, column]:.3f}."
