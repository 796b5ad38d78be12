"""Ribbons between the words of the source and the words of the target."""

from collections.abc import Collection

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy import ndarray

from dragoman.data.alignment import Measure, Rows
from dragoman.inspection.plots.canvas import INK, caption, lettering, sheet, short
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import Head, provenance, word_view, words

_FAINTEST = 0.08
"""Below this share of the strongest a ribbon would be invisible: it is left out."""


def alignment(
    trace: Trace,
    links: Collection[tuple[int, int]] | None = None,
    layer: int = -1,
    head: Head = "mean",
    rows: Rows = "written",
    measure: Measure = "attention",
    ax: Axes | None = None,
) -> Axes:
    """Source words on the left, target words on the right.

    Without `links`, a ribbon is as wide as the map says; with them, (source word, target word) as in Moses' format,
    each link is a line.
    """
    source, target = words(trace.source), words(trace.target)
    if links is None:
        seen = word_view(trace, layer, head, rows=rows, measure=measure)
        strength, text = seen.matrix, seen.caption
    else:
        strength, text = _of_links(links, len(target), len(source)), f"{len(links)} word links; {provenance(trace)}."
    ax = sheet(ax, 5.2, 0.9 + 0.26 * max(len(source), len(target), 3))
    left, right = (np.linspace(0, 1, 2 * len(side) + 1)[1::2] for side in (source, target))
    _ribbons(ax, strength, left, right, widest=9.0 if links is None else 1.6)
    _words(ax, source, left, x=-0.02, align="right")
    _words(ax, target, right, x=1.02, align="left")
    ax.set(xlim=(-0.5, 1.5), ylim=(1, 0))
    ax.axis("off")
    caption(ax, text)
    return ax


def _of_links(links: Collection[tuple[int, int]], num_target: int, num_source: int) -> Float[ndarray, "target source"]:
    strength = np.zeros((num_target, num_source), np.float32)
    for source, target in links:
        if not (0 <= source < num_source and 0 <= target < num_target):
            raise ValueError(f"the link {source}-{target} leaves a pair of {num_source} and {num_target} words")
        strength[target, source] = 1
    return strength


def _ribbons(
    ax: Axes,
    strength: Float[ndarray, "target source"],
    left: Float[ndarray, " source"],
    right: Float[ndarray, " target"],
    widest: float,
) -> None:
    strongest = float(strength.max(initial=0)) or 1.0
    for i, j in np.argwhere(strength > _FAINTEST * strongest):
        share = float(strength[i, j]) / strongest
        points = [(0.0, left[j]), (0.4, left[j]), (0.6, right[i]), (1.0, right[i])]
        path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        ribbon = PathPatch(path, fill=False, color=INK, alpha=0.25 + 0.65 * share, linewidth=widest * share)
        ribbon.set_capstyle("butt")
        ax.add_patch(ribbon)


def _words(ax: Axes, side: tuple[str, ...], places: Float[ndarray, " words"], x: float, align: str) -> None:
    style = lettering(side)
    for word, y in zip(short(side), places, strict=True):
        ax.text(x, float(y), word, ha=align, va="center", **style)
