"""How attention came to be, on paper: what each head measures over a training, the role it took, and its map."""

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

from dragoman.inspection.evolution import NUMBERS, ROLES, Course, Evolution, Number
from dragoman.inspection.plots.canvas import FAINT, INK, SMALL, caption, lettering, sheet, short
from dragoman.inspection.plots.heat import shaded, thinned, ticks
from dragoman.inspection.trace import Kind
from dragoman.inspection.view import CAVEAT, KINDS, view

_STROKES: Final = ("-", "--", ":", "-.")
_SHADES: Final = (INK, "#b3571e", "#2f7d4f", "#7a4fa3", "#555555", "#a8861a")
_MOST_NAMED: Final = 12
"""Lines that have their name at their end."""
MOST_MAPS, MOST_COLUMNS = 6, 40
"""So many moments of a map, or of roles, have room side by side."""
_GAP: Final = 1.0
"""Between two maps, in cells."""
_LINE: Final = 0.14
"""What a label needs, in inches."""
_APART: Final = 0.055
"""What a name at the end of a line needs, of the height of all lines."""
_ACROSS: Final = 8.5
"""The width of all maps together, in inches."""


def picture(evolution: Evolution, kind: Kind, sentence: int, course: Course | None = None) -> Axes:
    """All of it on one sheet: two numbers, the roles, and one sentence's map at some moments; the last axes."""
    shown = course or evolution.telling(kind)
    heads = evolution.of(None)
    heads = heads if len(heads) <= MOST_COLUMNS else evolution.of(kind)
    rows, columns = evolution.traces(sentence)[0].attention[shown.name].shape[1:]
    tall = (2.9, 0.9 + 0.19 * len(heads), 1.7 + max(1.2, _LINE * rows, 1.75 * rows / columns))
    figure = Figure(figsize=(11, sum(tall)), layout=ConstrainedLayoutEngine(h_pad=0.12))
    drawn = figure.subplot_mosaic([["left", "right"], ["roles", "roles"], ["maps", "maps"]], height_ratios=tall)
    lines(evolution, "entropy", kind, drawn["left"], thick=shown)
    lines(evolution, "alignment" if kind == "cross" else "sink_share", kind, drawn["right"], thick=shown)
    roles(evolution, heads, drawn["roles"])
    return maps(evolution, sentence, shown, drawn["maps"])


def lines(
    evolution: Evolution, number: Number, kind: Kind = "cross", ax: Axes | None = None, *, thick: Course | None = None
) -> Axes:
    """One line for each head, `thick` or else the one that stands out thick; a layer has its colour and its stroke."""
    ax = sheet(ax, 7.0, 3.6)
    heads, thick = evolution.of(kind), thick or evolution.telling(kind)
    named = heads if len(heads) <= _MOST_NAMED else [thick]
    at = [i for i, moment in enumerate(evolution.moments) if not moment.is_average]
    updates = [evolution.moments[i].update for i in at]
    for course in heads:
        known = [np.nan if (value := course.numbers(number)[i]) is None else value for i in at]
        width = 2.6 if course == thick else 1.1 if named is heads else 0.6
        ax.plot(updates, known, **_stroke(course.layer), linewidth=width, marker="o", markersize=2.4 * width**0.5)
    _ends(ax, named, number, at[-1], updates[-1])
    dotted = " Dotted: the update that was kept." if _keep_mark(ax, evolution) else ""
    ax.set(ylim=(0, 1.02), xlim=(0, max(1, updates[-1]) * 1.02))
    _updates(ax)
    if named is not heads:
        _legend(ax, heads)
    between = f", between {evolution.units}" if number == "alignment" else ""
    caption(ax, f"{NUMBERS[number]}{between}. {KINDS[kind]}, {thick} thick; {evolution.about}.{dotted}")
    return ax


def roles(evolution: Evolution, heads: Sequence[Course], ax: Axes | None = None) -> Axes:
    """The label of each head at each moment: a colour and a letter."""
    at = spread(len(evolution.moments), MOST_COLUMNS)
    ax = sheet(ax, 11.0, 1.2 + 0.19 * len(heads))
    for y, course in enumerate(heads):
        for x, moment in enumerate(at):
            letter, colour = ROLES[course.label[moment]]
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#999999", linewidth=0.5))
            ink = "white" if colour == INK else "black"
            ax.text(x + 0.5, y + 0.5, letter, ha="center", va="center", color=ink, fontsize=SMALL - 1)
    ax.set(xlim=(0, len(at)), ylim=(len(heads), 0))
    ax.set_xticks(np.arange(len(at)) + 0.5, [_short_name(evolution, i) for i in at], fontsize=SMALL - 1)
    ax.tick_params(axis="x", rotation=90 if len(at) > 12 else 0)
    ax.set_yticks(np.arange(len(heads)) + 0.5, [f"{course.kind} {course}" for course in heads], fontsize=SMALL - 1)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    _role_legend(ax, heads)
    thinned = f" ({len(at)} of {len(evolution.moments)} moments)" if len(at) < len(evolution.moments) else ""
    caption(ax, f"The role of each head, by update{thinned}: a summary of its weights, not more; {evolution.about}.")
    return ax


def maps(evolution: Evolution, sentence: int, course: Course, ax: Axes | None = None) -> Axes:
    """One head's map of one sentence at up to six moments, from the first to the kept, all on one scale of colours."""
    until = len(evolution.moments) if evolution.kept is None else evolution.kept + 1
    traces = evolution.traces(sentence)[:until]
    seen = [view(trace, course.layer, course.head, kind=course.kind) for trace in traces]
    at = turning([one.matrix for one in seen], MOST_MAPS)
    views = [seen[i] for i in at]
    num_rows, num_columns = views[0].matrix.shape
    ax = sheet(ax, 11.0, 4.0)
    largest = max(float(one.matrix.max(initial=0)) for one in views)
    for k, one in enumerate(views):
        left = k * (num_columns + _GAP)
        x, y = left + np.arange(num_columns + 1), np.arange(num_rows + 1)
        shaded(ax, one.matrix, x.astype(float), y.astype(float), largest, len(at) * one.matrix.size)
        ax.add_patch(Rectangle((left, 0), num_columns, num_rows, fill=False, edgecolor=FAINT, linewidth=0.6))
    shown = _label_maps(ax, views[-1].rows, views[-1].columns, [_name(evolution, i) for i in at])
    text = f"{views[-1].caption.partition(';')[0]} (white is 0, darkest is {largest:.2g}); "
    convention = "" if course.kind == "encoder" else "a row is the token being written; "
    chosen = " Moments between which it changed most." if len(at) < until else ""
    caption(ax, f"{text}{convention}one of {evolution.about}.{chosen}{thinned(*shown)} {CAVEAT}")
    return ax


def spread(count: int, most: int) -> list[int]:
    """At most so many of the moments, evenly, the first and the last among them."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most)).tolist()})


def turning(maps: Sequence[np.ndarray], most: int) -> list[int]:
    """At most so many of the moments, the first and the last among them, so that about as much happened between any
    two neighbours.
    """
    steps = [float(np.abs(after - before).sum()) for before, after in pairwise(maps)]
    reached = np.cumsum([0.0, *steps])
    wanted = np.linspace(0.0, reached[-1], min(most, len(maps)))[1:-1]
    return sorted({0, len(maps) - 1, *(int(np.abs(reached - place).argmin()) for place in wanted)})


def _name(evolution: Evolution, moment: int) -> str:
    return f"{evolution.moments[moment]}{', kept' if moment == evolution.kept else ''}"


def _short_name(evolution: Evolution, moment: int) -> str:
    return _name(evolution, moment).removeprefix("update ").replace(", kept", "\nkept")


def _stroke(layer: int) -> dict[str, Any]:
    return {"color": _SHADES[layer % len(_SHADES)], "linestyle": _STROKES[layer % len(_STROKES)]}


def _ends(ax: Axes, named: Sequence[Course], number: Number, last: int, update: int) -> None:
    """The name of each line beside its end, moved apart where lines end together, and led to it by a thin line."""
    ordered = sorted(named, key=lambda course: course.numbers(number)[last] or 0.0)
    ends = [course.numbers(number)[last] or 0.0 for course in ordered]
    for course, end, place in zip(ordered, ends, apart(ends, _APART), strict=True):
        colour = _SHADES[course.layer % len(_SHADES)]
        ax.annotate(
            course.short,
            (update, end),
            (1.04, place),
            textcoords=("axes fraction", "data"),
            va="center",
            fontsize=SMALL - 1,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
            annotation_clip=False,
        )


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Places in their order, moved as little as can be so that neighbours are `gap` apart."""
    blocks: list[tuple[float, int]] = []  # of places that lie together: where the first goes, and how many
    for i, place in enumerate(places):
        mean, count = place - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [mean + i * gap for i, mean in enumerate(mean for mean, count in blocks for _ in range(count))]


def _keep_mark(ax: Axes, evolution: Evolution) -> bool:
    kept = evolution.kept
    if kept is None or evolution.moments[kept].is_average:
        return False
    ax.axvline(evolution.moments[kept].update, color="#999999", linewidth=0.8, linestyle=(0, (1, 2)))
    return True


def _updates(ax: Axes) -> None:
    ax.set_xlabel("update", fontsize=SMALL)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes, heads: Sequence[Course]) -> None:
    layers = sorted({course.layer for course in heads})
    handles = [Line2D([], [], **_stroke(layer), label=f"layer {layer}") for layer in layers]
    ax.legend(handles=handles, frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(1.06, 0.5))


def _role_legend(ax: Axes, heads: Sequence[Course]) -> None:
    present = {label for course in heads for label in course.label}
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor="#999999", label=f"{letter} {label}")
        for label, (letter, colour) in ROLES.items()
        if label in present
    ]
    ax.legend(handles=handles, frameon=False, fontsize=SMALL, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _label_maps(ax: Axes, rows: Sequence[str], columns: Sequence[str], names: Sequence[str]) -> tuple[range, range]:
    """Gives the rows and the columns whose labels have room."""
    step, count = len(columns) + _GAP, len(names)
    down = ticks(len(rows))
    across = range(0, len(columns), math.ceil(_LINE * count * step / _ACROSS))
    places = [k * step + i + 0.5 for k in range(count) for i in across]
    ax.set_xticks(places, short(columns[i] for i in across) * count, rotation=90, **lettering(columns))
    ax.set_yticks([i + 0.5 for i in down], short(rows[i] for i in down), **lettering(rows))
    ax.set(xlim=(0, count * step - _GAP), ylim=(len(rows), 0))
    above = ax.secondary_xaxis("top")
    above.set_xticks([k * step + len(columns) / 2 for k in range(count)], names, fontsize=SMALL)
    for axes in (ax, above):
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return down, across
