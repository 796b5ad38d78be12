"""Numbers along an axis: the source's share in each target token, and measures over the course of a training."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy import ndarray

from dragoman.inspection.plots.canvas import FAINT, INK, SMALL, caption, lettering, sheet, short
from dragoman.inspection.plots.heat import ticks
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import provenance

Series = Mapping[str, Sequence[tuple[int, float]]]
"""By name: (update, value) for each checkpoint."""

_LINES: Final = ("-", "--", ":", "-.")
_MARKS: Final = ("o", "s", "^", "D", "v", "x")
_SHADES: Final = (INK, "#b3571e", "#2f7d4f", "#7a4fa3", "#555555")


def source_share(
    trace: Trace, share: Float[ndarray, " target"], measure: str = "share of the source", ax: Axes | None = None
) -> Axes:
    """How much of each target token came from the source; the rest came from what was written before it."""
    ax = sheet(ax, max(5.6, 0.24 * len(share) + 3), 2.8)
    places = np.arange(len(share))
    ax.bar(places, share, color=INK, width=0.8, label="source")
    ax.bar(places, 1 - share, bottom=share, color=FAINT, width=0.8, label="what was written before")
    shown = ticks(len(share))
    labels = [trace.target.pieces[i] for i in shown]
    ax.set_xticks(shown, short(labels), rotation=90, **lettering(labels))
    ax.set(ylim=(0, 1))
    ax.tick_params(axis="y", labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption(ax, f"{measure}; {provenance(trace)}. A run of low bars is a sign of hallucination, not a proof.")
    return ax


def evolution(series: Series, measure: str, ax: Axes | None = None) -> Axes:
    """One line for each name over the updates, told apart by stroke and mark as well as by colour."""
    ax = sheet(ax, 7.0, 3.6)
    for i, (name, points) in enumerate(series.items()):
        updates, values = [update for update, _ in points], [value for _, value in points]
        ax.plot(
            updates,
            values,
            label=short([name])[0],
            color=_SHADES[i % len(_SHADES)],
            linestyle=_LINES[i % len(_LINES)],
            marker=_MARKS[i % len(_MARKS)],
            markersize=3.5,
            linewidth=1.3,
        )
    ax.set_xlabel("update", fontsize=SMALL)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if series:
        ax.legend(frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption(ax, measure)
    return ax
