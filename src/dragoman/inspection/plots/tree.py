"""The beam as a tree: which hypotheses lived, which ended, which fell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes

from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection.labels import clean, shorten
from dragoman.inspection.plots.canvas import FAINT, INK, SECOND, caption, lettering, sheet
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import provenance

History = Sequence[Sequence[Candidate]]
_LABEL: Final = 9


@dataclass(frozen=True)
class _Node:
    step: int
    row: int
    """The place in the beam for what lives; below the beam for what ended; lower still for what fell."""
    candidate: Candidate
    on_path: bool


def beam_tree(trace: Trace, ax: Axes | None = None) -> Axes:
    """Step by step from left to right, with the way to the target. What fell is a count: nothing grew from it."""
    history = trace.history
    if not history:
        raise ValueError("this trace has no history of the beam: trace the sentence again with history=True")
    beam = 1 + max((c.place for step in history for c in step if c.place is not None), default=0)
    nodes = _nodes(history, trace.target.ids[:-1], beam)
    lowest = max((node.row for node in nodes), default=0)
    ax = sheet(ax, 1.2 + 1.15 * (len(history) + 1), 1.4 + 0.36 * (lowest + 2))
    for node in nodes:
        _branch(ax, node)
    _names(ax, nodes, trace.pieces)
    _fallen(ax, history, lowest + 1)
    ax.set(xlim=(-0.4, len(history) + 0.8), ylim=(lowest + 1.6, -0.8))
    ax.axis("off")
    caption(
        ax,
        "beam search from left to right, best place on top: a number is the log-probability so far; "
        f"boxes ended; the heavy line is the hypothesis chosen; {provenance(trace)}.",
    )
    return ax


def _nodes(history: History, best: tuple[int, ...], beam: int) -> list[_Node]:
    """What lived or ended, with the path of the best hypothesis followed through the places of the beam."""
    nodes: list[_Node] = []
    at: int | None = 0
    for step, candidates in enumerate(history):
        ended = beam
        next_at: int | None = None
        for candidate in candidates:
            follows = at is not None and candidate.parent == at
            if candidate.place is not None:
                on_path = follows and best[step : step + 1] == (candidate.token,)
                next_at = candidate.place if on_path else next_at
                nodes.append(_Node(step, candidate.place, candidate, on_path))
            elif candidate.ended:
                nodes.append(_Node(step, ended, candidate, follows and step == len(best)))
                ended += 1
        at = next_at
    return nodes


def _branch(ax: Axes, node: _Node) -> None:
    colour, width, layer = (INK, 2.6, 2) if node.on_path else (FAINT, 1.0, 1)
    # The parent's place is known from the candidate: places are rows, and steps are columns.
    xs, ys = [node.step + 0.36, node.step + 0.64], [node.candidate.parent if node.step else 0, node.row]
    ax.plot(xs, ys, color=colour, linewidth=width, zorder=layer, solid_capstyle="round")


def _names(ax: Axes, nodes: Sequence[_Node], pieces: Mapping[int, str]) -> None:
    labels = [pieces.get(node.candidate.token, f"#{node.candidate.token}") for node in nodes]
    style = lettering(labels)
    ax.text(0.33, 0, "begin", ha="right", va="center", **style)
    for node, label in zip(nodes, labels, strict=True):
        score = f"{shorten(clean(label), _LABEL)}  {node.candidate.log_probability:.1f}"
        frame = {"boxstyle": "round,pad=0.2", "facecolor": "white", "linewidth": 1.4}
        frame["edgecolor"] = SECOND if node.candidate.ended else "white"
        colour = INK if node.on_path else "black"
        ax.text(node.step + 1, node.row, score, ha="center", va="center", bbox=frame, color=colour, zorder=3, **style)


def _fallen(ax: Axes, history: History, row: int) -> None:
    for step, candidates in enumerate(history):
        count = sum(candidate.place is None and not candidate.ended for candidate in candidates)
        ax.text(step + 1, row, f"{count} fell", ha="center", va="center", color="#777777", fontsize=6.5)
