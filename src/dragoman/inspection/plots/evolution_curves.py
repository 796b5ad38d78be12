"""Plots of how attention evolves during training: statistics, roles and maps of heads by update."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from dragoman.attention.kinds import Kind
from dragoman.inspection.evolution import NUMBERS, ROLES, Evolution, HeadHistory, Number
from dragoman.inspection.plots.canvas import FAINT, INK, SECOND, SMALL, caption, lettering, sheet, short, without_frame
from dragoman.inspection.plots.maps import shade, thinning_note, ticks
from dragoman.inspection.view import CAVEAT, KINDS, view

_STROKES: Final = ("-", "--", ":", "-.")
_SHADES: Final = (INK, SECOND, "#2f7d4f", "#7a4fa3", "#555555", "#a8861a")
_MOST_NAMED: Final = 12
"""The maximum number of lines that are labelled at the end."""
MOST_MAPS, MOST_COLUMNS = 6, 40
"""The maximum number of snapshots side by side, for maps and for roles."""
_GAP: Final = 1.0
"""The distance between two maps, in cells."""
_LINE: Final = 0.14
"""The height of a label, in inches."""
_APART: Final = 0.055
"""The height of a label at the end of a line, as a fraction of the axes."""
_ACROSS: Final = 8.5
"""The width of all maps together, in inches."""


def evolution(run: Evolution, kind: Kind = "cross", sentence: int = 0, head: HeadHistory | None = None) -> Axes:
    """Draw one figure: two statistics of one kind of heads, the roles of heads, and one head's map at several updates.

    `head` is the head whose map of the probe sentence `sentence` is drawn; it defaults to `Evolution.standout`. With
    more than `MOST_COLUMNS` heads, the roles are those of `kind` only. Returns the last axes.
    """
    head = head or run.standout(kind)
    heads = run.heads(None)
    heads = heads if len(heads) <= MOST_COLUMNS else run.heads(kind)
    rows, columns = run.traces(sentence)[0].attention[head.name].shape[1:]
    heights = (2.9, 0.9 + 0.19 * len(heads), 1.7 + max(1.2, _LINE * rows, 1.75 * rows / columns))
    figure = Figure(figsize=(11, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.12))
    axes = figure.subplot_mosaic([["left", "right"], ["roles", "roles"], ["maps", "maps"]], height_ratios=heights)
    lines(run, "entropy", kind, axes["left"], thick=head)
    lines(run, "alignment" if kind == "cross" else "sink_share", kind, axes["right"], thick=head)
    roles(run, heads, axes["roles"])
    return maps(run, sentence, head, axes["maps"])


def lines(
    run: Evolution, number: Number, kind: Kind = "cross", ax: Axes | None = None, *, thick: HeadHistory | None = None
) -> Axes:
    """Draw one statistic as a line per head, styled by layer; `thick` defaults to `Evolution.standout`."""
    ax = sheet(ax, 7.0, 3.6)
    heads, thick = run.heads(kind), thick or run.standout(kind)
    has_names = len(heads) <= _MOST_NAMED
    at = [i for i, snapshot in enumerate(run.snapshots) if not snapshot.is_average]
    updates = [run.snapshots[i].update for i in at]
    for head in heads:
        known = [np.nan if (value := head.numbers(number)[i]) is None else value for i in at]
        width = 2.6 if head == thick else 1.1 if has_names else 0.6
        ax.plot(updates, known, **_stroke(head.layer), linewidth=width, marker="o", markersize=2.4 * width**0.5)
    _name_ends(ax, heads if has_names else [thick], number, at[-1], updates[-1])
    note = ""
    if run.kept is not None and not run.snapshots[run.kept].is_average:
        ax.axvline(run.snapshots[run.kept].update, color="#999999", linewidth=0.8, linestyle=(0, (1, 2)))
        note = " Dotted: the update that was kept."
    ax.set(ylim=(0, 1.02), xlim=(0, max(1, updates[-1]) * 1.02))
    ax.set_xlabel("update", fontsize=SMALL)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if not has_names:
        layers = sorted({head.layer for head in heads})
        _legend(ax, [Line2D([], [], **_stroke(layer), label=f"layer {layer}") for layer in layers], 1.06)
    between = f", between {run.units}" if number == "alignment" else ""
    title = f"{KINDS[kind]}: {number.replace('_', ' ')}"
    caption(ax, title, f"{NUMBERS[number]}{between}. {thick} thick; {run.about}.{note}")
    return ax


def roles(run: Evolution, heads: Sequence[HeadHistory], ax: Axes | None = None) -> Axes:
    """Draw the role of each head at each snapshot as a colour and a letter."""
    at = spread(len(run.snapshots), MOST_COLUMNS)
    ax = sheet(ax, 11.0, 1.2 + 0.19 * len(heads))
    for y, head in enumerate(heads):
        for x, snapshot in enumerate(at):
            letter, colour = ROLES[head.label[snapshot]]
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#999999", linewidth=0.5))
            ink = "white" if colour == INK else "black"
            ax.text(x + 0.5, y + 0.5, letter, ha="center", va="center", color=ink, fontsize=SMALL - 1)
    ax.set(xlim=(0, len(at)), ylim=(len(heads), 0))
    names = [_name(run, i).removeprefix("update ").replace(", kept", "\nkept") for i in at]
    ax.set_xticks(np.arange(len(at)) + 0.5, names, fontsize=SMALL - 1)
    ax.tick_params(axis="x", rotation=90 if len(at) > 12 else 0)
    ax.set_yticks(np.arange(len(heads)) + 0.5, [f"{head.kind} {head}" for head in heads], fontsize=SMALL - 1)
    without_frame(ax)
    present = {label for head in heads for label in head.label}
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor="#999999", label=f"{letter} {label}")
        for label, (letter, colour) in ROLES.items()
        if label in present
    ]
    _legend(ax, handles, 1.0)
    thinned = f" ({len(at)} of {len(run.snapshots)} snapshots)" if len(at) < len(run.snapshots) else ""
    caption(ax, f"The role of each head, by update{thinned}", f"A summary of its weights, not more; {run.about}.")
    return ax


def maps(run: Evolution, sentence: int, head: HeadHistory, ax: Axes | None = None) -> Axes:
    """Draw one head's map of one sentence at up to six snapshots on one colour scale."""
    until = len(run.snapshots) if run.kept is None else run.kept + 1
    every = [view(trace, head.layer, head.head, kind=head.kind) for trace in run.traces(sentence)[:until]]
    at = turning_points([shown.matrix for shown in every], MOST_MAPS)
    views = [every[i] for i in at]
    num_rows, num_columns = views[0].matrix.shape
    ax = sheet(ax, 11.0, 4.0)
    largest = max(float(shown.matrix.max(initial=0)) for shown in views)
    for k, shown in enumerate(views):
        left = k * (num_columns + _GAP)
        x, y = left + np.arange(num_columns + 1), np.arange(num_rows + 1)
        shade(ax, shown.matrix, x.astype(float), y.astype(float), largest, len(at) * shown.matrix.size)
        ax.add_patch(Rectangle((left, 0), num_columns, num_rows, fill=False, edgecolor=FAINT, linewidth=0.6))
    down, across = _label_maps(ax, views[-1].rows, views[-1].columns, [_name(run, i) for i in at])
    title, _, text = views[-1].caption.partition(";")[0].partition(": ")
    scale = f"white is 0, darkest is {largest:.2g}"
    convention = "" if head.kind == "encoder" else "a row is the token being written; "
    selected = " Snapshots between which it changed most." if len(at) < until else ""
    caption(
        ax, title, f"{text} ({scale}); {convention}one of {run.about}.{selected}{thinning_note(down, across)} {CAVEAT}"
    )
    return ax


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` indices, evenly spaced, including the first and the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most)).tolist()})


def turning_points(maps: Sequence[np.ndarray], most: int) -> list[int]:
    """Return the indices of at most `most` maps, spaced so that neighbours differ by similar amounts.

    The first and the last map are always included.
    """
    steps = [float(np.abs(after - before).sum()) for before, after in pairwise(maps)]
    reached = np.cumsum([0.0, *steps])
    goals = np.linspace(0.0, reached[-1], min(most, len(maps)))[1:-1]
    return sorted({0, len(maps) - 1, *(int(np.abs(reached - goal).argmin()) for goal in goals)})


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return sorted heights moved as little as possible so that neighbours are at least `gap` apart."""
    blocks: list[tuple[float, int]] = []  # of heights that lie together: where the first goes, and how many
    for i, height in enumerate(heights):
        mean, count = height - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [mean + i * gap for i, mean in enumerate(mean for mean, count in blocks for _ in range(count))]


def _name(run: Evolution, snapshot: int) -> str:
    return f"{run.snapshots[snapshot]}{', kept' if snapshot == run.kept else ''}"


def _stroke(layer: int) -> dict[str, Any]:
    return {"color": _SHADES[layer % len(_SHADES)], "linestyle": _STROKES[layer % len(_STROKES)]}


def _name_ends(ax: Axes, heads: Sequence[HeadHistory], number: Number, last: int, update: int) -> None:
    """Label the end of each line; labels of lines that end close together are moved apart."""
    ends = sorted(((head.numbers(number)[last] or 0.0, head) for head in heads), key=lambda end: end[0])
    for (end, head), height in zip(ends, apart([end for end, _ in ends], _APART), strict=True):
        colour = _SHADES[head.layer % len(_SHADES)]
        ax.annotate(
            head.short,
            (update, end),
            (1.04, height),
            textcoords=("axes fraction", "data"),
            va="center",
            fontsize=SMALL - 1,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
            annotation_clip=False,
        )


def _legend(ax: Axes, handles: Sequence[Line2D | Rectangle], left: float) -> None:
    ax.legend(handles=handles, frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(left, 0.5))


def _label_maps(ax: Axes, rows: Sequence[str], columns: Sequence[str], names: Sequence[str]) -> tuple[range, range]:
    """Label all maps; return the rows and the columns whose labels fit."""
    step, count = len(columns) + _GAP, len(names)
    down = ticks(len(rows))
    across = range(0, len(columns), math.ceil(_LINE * count * step / _ACROSS))
    places = [k * step + i + 0.5 for k in range(count) for i in across]
    ax.set_xticks(places, short(columns[i] for i in across) * count, rotation=90, **lettering(columns))
    ax.set_yticks([i + 0.5 for i in down], short(rows[i] for i in down), **lettering(rows))
    ax.set(xlim=(0, count * step - _GAP), ylim=(len(rows), 0))
    above = ax.secondary_xaxis("top")
    above.set_xticks([k * step + len(columns) / 2 for k in range(count)], names, fontsize=SMALL)
    above.tick_params(length=0)
    above.spines[:].set_visible(False)
    without_frame(ax)
    return down, across
