"""Heat maps: one attention map, the maps of all heads at once, and alignment error rates by layer and head."""

from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle
from numpy import ndarray

from dragoman.attention.kinds import Kind
from dragoman.bundle.alignment_head import Measure, Rows
from dragoman.inspection.head_search import AlignmentGrid
from dragoman.inspection.plots import canvas
from dragoman.inspection.plots.canvas import FAINT, SMALL
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import KINDS, MEASURES, ROWS, MapChoice, check_names, describe, heads_off, maps_of, view

Matrix = Float[ndarray, "rows columns"]

MOST_VECTOR_CELLS: Final = 50 * 50
"""The maximum number of cells drawn as vector paths; more cells are rasterised, as paths are slow to view."""
MOST_LABELS: Final = 60
_CELL: Final = 0.21
"""The preferred size of a cell, in inches."""
_DARK: Final = 0.7
"""The value above which the text on a cell is white instead of black."""


def attention(trace: Trace, choice: MapChoice | None = None, ax: Axes | None = None) -> Axes:
    """Draw one attention map, where darker is larger; rows that are left empty are grey."""
    choice = choice or MapChoice()
    shown = choice.view(trace)
    num_rows, num_columns = shown.matrix.shape
    ax = canvas.sheet(ax, _side(num_columns, 4.8) + 0.8, _side(num_rows, 2.4) + 0.6)
    mesh = shade(ax, shown.matrix, np.arange(num_columns + 1) - 0.5, np.arange(num_rows + 1) - 0.5)
    for row in shown.empty_rows:
        ax.axhspan(row - 0.5, row + 0.5, color=FAINT)
    ax.invert_yaxis()
    style = canvas.lettering([*shown.rows, *shown.columns])
    across, down = ticks(num_columns), ticks(num_rows)
    ax.set_xticks(across, canvas.short(shown.columns[i] for i in across), rotation=90, **style)
    ax.set_yticks(down, canvas.short(shown.rows[i] for i in down), **style)
    ax.tick_params(length=0)
    ax.spines[:].set_color("#bbbbbb")
    title, _, text = shown.caption.partition(": ")
    canvas.caption(ax, title, text + thinning_note(down, across))
    height = float(canvas.figure_of(ax).get_figheight() * ax.get_position().height)
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.04, pad=0.02, aspect=max(12.0, height / 0.14))
    scale = "share of the row" if choice.measure == "attention" or choice.hide_sinks else "norm"
    bar.set_label(scale, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    return ax


def heads(trace: Trace, kind: Kind = "cross", measure: Measure = "attention", ax: Axes | None = None) -> Axes:
    """Draw a small map of every head of every layer on one colour scale, with the sink share of each head."""
    check_names(kind, measure=measure)
    names = trace.names(kind)
    maps = [maps_of(trace, measure)[name] for name in names]
    num_heads = max(map(len, maps), default=0)
    ax = canvas.sheet(ax, max(4.8, 1.5 * num_heads), 0.8 + 1.5 * len(names))
    largest = max((float(of_layer.max(initial=0)) for of_layer in maps), default=1.0)
    for layer, of_layer in enumerate(maps):
        for head in range(len(of_layer)):
            shown = view(trace, layer, head, kind=kind, measure=measure)
            num_rows, num_columns = shown.matrix.shape
            x, y = np.linspace(0.05, 0.95, num_columns + 1), np.linspace(0.05, 0.82, num_rows + 1)
            shade(ax, shown.matrix, head + x, layer + y, largest, sum(each.size for each in maps))
            ax.add_patch(Rectangle((head + 0.05, layer + 0.05), 0.9, 0.77, fill=False, edgecolor=FAINT, linewidth=0.6))
            below = "off" if head in heads_off(trace, names[layer]) else f"{shown.sink_share:.0%} in sinks"
            ax.text(head + 0.5, layer + 0.97, below, ha="center", fontsize=SMALL - 2)
    ax.set(xlim=(0, num_heads), ylim=(len(names), 0))
    ax.set_xticks(np.arange(num_heads) + 0.5, [f"head {i}" for i in range(num_heads)], fontsize=SMALL)
    ax.set_yticks(np.arange(len(names)) + 0.45, [f"layer {i}" for i in range(len(names))], fontsize=SMALL)
    canvas.without_frame(ax)
    across = "tokens read" if kind == "decoder" else "source tokens"
    ax.set_xlabel(f"in each map, from the left: {across}", fontsize=SMALL)
    down = "source tokens" if kind == "encoder" else "tokens being written"
    ax.set_ylabel(f"in each map, from the top: {down}", fontsize=SMALL)
    scale = f"white is 0, darkest is {largest:.2g}; sinks are marks and punctuation"
    canvas.caption(ax, f"{KINDS[kind]}, every head", f"{scale}; {describe(trace, kind, 'written', measure)}")
    return ax


def aer_grid(
    grid: AlignmentGrid, rows: Rows = "written", measure: Measure = "attention", ax: Axes | None = None, text: str = ""
) -> Axes:
    """Draw alignment error rates by layer and head for one row convention and measure; darker is better.

    `text` is added to the caption, such as the names of the gold standard and the model.
    """
    layers, rates = grid.panel(rows, measure)
    ax = canvas.sheet(ax, max(4.8, 0.6 * rates.shape[1] + 1.6), max(2.0, 0.42 * len(layers) + 1.2))
    good = np.nan_to_num(1 - rates)
    shade(ax, good, np.arange(rates.shape[1] + 1) - 0.5, np.arange(len(layers) + 1) - 0.5, largest=1.0)
    for (layer, head), rate in np.ndenumerate(rates):
        ink = "white" if good[layer, head] > _DARK else "black"
        number = "?" if np.isnan(rate) else f"{rate:.3f}"
        ax.text(head, layer, number, ha="center", va="center", color=ink, fontsize=SMALL - 1)
    columns = [*(f"head {i}" for i in range(rates.shape[1] - 1)), "mean"]
    ax.set_xticks(range(len(columns)), columns, fontsize=SMALL, rotation=45)
    ax.set_yticks(range(len(layers)), [name.removesuffix(".cross_attention") for name in layers], fontsize=SMALL)
    ax.tick_params(length=0)
    ax.invert_yaxis()
    best = _frame_best(ax, rates)
    title = "alignment error rate, lower is better"
    canvas.caption(ax, title, f"{MEASURES[measure]}; {ROWS[rows]}. {best} {text}")
    return ax


def _frame_best(ax: Axes, rates: Matrix) -> str:
    """Frame the best cell in two colours, visible in greyscale too; return a sentence for the caption."""
    if np.isnan(rates).all():
        return "Nothing was measured."
    layer, column = np.unravel_index(int(np.nanargmin(rates)), rates.shape)
    for colour, width in (("white", 5.0), (canvas.SECOND, 2.5)):
        corner = (float(column) - 0.45, float(layer) - 0.42)
        ax.add_patch(Rectangle(corner, 0.9, 0.84, fill=False, edgecolor=colour, linewidth=width))
    which = "mean" if column == rates.shape[1] - 1 else f"head {column}"
    return f"Framed, the best: layer {layer}, {which}, {rates[layer, column]:.3f}."


def shade(
    ax: Axes, matrix: Matrix, x: np.ndarray, y: np.ndarray, largest: float | None = None, num_cells: int | None = None
) -> QuadMesh:
    """Draw a matrix of cells, rasterised if the plot has more than `MOST_VECTOR_CELLS` cells.

    `num_cells` is the number of cells in the whole plot; it defaults to the size of the matrix.
    """
    raster = (matrix.size if num_cells is None else num_cells) > MOST_VECTOR_CELLS
    top = float(matrix.max(initial=0)) if largest is None else largest
    return ax.pcolormesh(x, y, matrix, cmap=canvas.COLOURS, vmin=0, vmax=top or 1, rasterized=raster)


def ticks(count: int) -> range:
    """Return the indices of the labels to show: at most `MOST_LABELS` of `count`, evenly spaced."""
    return range(0, count, max(1, -(-count // MOST_LABELS)))


def thinning_note(down: range, across: range) -> str:
    """Return a sentence for the caption if some labels are not shown."""
    named = [f"one {what} in {labels.step}" for what, labels in (("row", down), ("column", across)) if labels.step > 1]
    return f" There is space for the name of {' and '.join(named)}." if named else ""


def _side(count: int, least: float) -> float:
    return float(np.clip(_CELL * count + 1.2, least, 14))
