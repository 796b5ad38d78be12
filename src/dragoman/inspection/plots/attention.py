"""Attention as it is in a trace: one map, the maps of all heads at once, and contributions to each target token."""

from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy import ndarray

from dragoman.data.alignment import Measure, Rows
from dragoman.inspection.plots.canvas import FAINT, SMALL, caption, sheet
from dragoman.inspection.plots.heat import heat, shaded
from dragoman.inspection.trace import Kind, Trace
from dragoman.inspection.view import (
    ANECDOTE,
    CAVEAT,
    KINDS,
    MEASURES,
    Head,
    heads_off,
    maps_of,
    provenance,
    refuse_unknown,
    row_is,
    view,
)

_ROWS: Final[dict[Kind, str]] = {
    "cross": "tokens being written", "encoder": "source tokens", "decoder": "tokens being written"
}  # fmt: skip
_COLUMNS: Final[dict[Kind, str]] = {"cross": "source tokens", "encoder": "source tokens", "decoder": "tokens read"}


def attention(
    trace: Trace,
    layer: int = -1,
    head: Head = "mean",
    rows: Rows = "written",
    measure: Measure = "attention",
    ax: Axes | None = None,
    *,
    kind: Kind = "cross",
    hide_sinks: bool = False,
) -> Axes:
    """One map. `hide_sinks` leaves marks and punctuation out and divides each row by what is left of it."""
    seen = view(trace, layer, head, kind=kind, rows=rows, measure=measure).with_sink_share()
    seen = seen.without_sinks() if hide_sinks else seen
    scale = "share of the row" if measure == "attention" or hide_sinks else "norm"
    return heat(seen.matrix, seen.rows, seen.columns, seen.caption, ax, scale=scale, empty=seen.emptied)


def heads(trace: Trace, kind: Kind = "cross", measure: Measure = "attention", ax: Axes | None = None) -> Axes:
    """Every head of every layer, small, on one scale of colours, with the share that rests on the sinks."""
    refuse_unknown(kind, measure=measure)
    names = trace.names(kind)
    maps = [maps_of(trace, measure)[name] for name in names]
    num_heads = max(map(len, maps), default=0)
    ax = sheet(ax, max(4.8, 1.5 * num_heads), 0.8 + 1.5 * len(names))
    largest = max((float(one.max(initial=0)) for one in maps), default=1.0)
    for layer, of_layer in enumerate(maps):
        for head in range(len(of_layer)):
            seen = view(trace, layer, head, kind=kind, measure=measure)
            x, y = (
                np.linspace(0.05, end, size + 1) for end, size in zip((0.95, 0.82), seen.matrix.T.shape, strict=True)
            )
            shaded(ax, seen.matrix, head + x, layer + y, largest, sum(one.size for one in maps))
            ax.add_patch(Rectangle((head + 0.05, layer + 0.05), 0.9, 0.77, fill=False, edgecolor=FAINT, linewidth=0.6))
            below = "off" if head in heads_off(trace, names[layer]) else f"{seen.sink_share:.0%} in sinks"
            ax.text(head + 0.5, layer + 0.97, below, ha="center", fontsize=SMALL - 2)
    _frame(ax, len(names), num_heads)
    ax.set_xlabel(f"in each map, from the left: {_COLUMNS[kind]}", fontsize=SMALL)
    ax.set_ylabel(f"in each map, from the top: {_ROWS[kind]}", fontsize=SMALL)
    caption(
        ax,
        f"{KINDS[kind]}, every head: {MEASURES[measure]} (white is 0, darkest is {largest:.2g}); "
        f"{row_is(kind, 'written')}; sinks are marks and punctuation; {provenance(trace, kind)}. {CAVEAT} {ANECDOTE}",
    )
    return ax


def contributions(trace: Trace, matrix: Float[ndarray, "target source"], measure: str, ax: Axes | None = None) -> Axes:
    """What each source token did for each target token, by any measure that has a name (occlusion, gradients...)."""
    text = f"{measure}; {provenance(trace)}. A dot marks what is below zero."
    return heat(matrix, trace.target.pieces, trace.source.pieces, text, ax, scale="size of the contribution")


def _frame(ax: Axes, num_layers: int, num_heads: int) -> None:
    ax.set(xlim=(0, num_heads), ylim=(num_layers, 0))
    ax.set_xticks(np.arange(num_heads) + 0.5, [f"head {i}" for i in range(num_heads)], fontsize=SMALL)
    ax.set_yticks(np.arange(num_layers) + 0.45, [f"layer {i}" for i in range(num_layers)], fontsize=SMALL)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
