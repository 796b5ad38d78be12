"""The course of a run as a picture: loss and learning rate, and the scores of its validations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

Events = Sequence[dict[str, Any]]

_LOSS, _HELD_OUT, _BLEU, _CHRF = "#4477aa", "#ee6677", "#228833", "#aa3377"
_RATE, _FAINT, _QUIET = "#eeeeee", "#dddddd", "#777777"

_SMALL: Final = 8.5
_ROOM: Final = 1.2
"""The axis of updates is longer than the curves by this, for the labels at their ends."""


def draw(events: Events, path: Path, title: str) -> None:
    """Draw the events of a log. A figure of its own, without pyplot: nothing is left behind in a long run."""
    updates = [event for event in events if event["event"] == "update"]
    validations = [event for event in events if event["event"] == "validation"]
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _losses(left, updates, validations)
    _scores(right, validations)
    for axes in (left, right):
        _frame(axes, max((event["update"] for event in events), default=1))
    figure.suptitle(title, fontsize=11)
    beside = path.with_name(f".{path.name}.unfinished")
    figure.savefig(beside, format=path.suffix[1:], dpi=110)
    beside.replace(path)


def _losses(axes: Axes, updates: Events, validations: Events) -> None:
    """With the learning rate behind them, as a shade."""
    rates = axes.twinx()
    rates.fill_between(*_column(updates, "rate"), color=_RATE, linewidth=0)
    rates.set_ylim(bottom=0)
    rates.set_ylabel("learning rate (grey)", color=_QUIET, fontsize=_SMALL)
    rates.tick_params(axis="y", colors=_QUIET, labelsize=_SMALL, length=0)
    rates.yaxis.set_major_locator(MaxNLocator(4))
    rates.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    rates.spines[:].set_visible(False)
    axes.set_zorder(rates.get_zorder() + 1)
    axes.patch.set_visible(False)
    _curve(axes, updates, "loss", "training", _LOSS)
    _curve(axes, validations, "loss", "validation", _HELD_OUT)
    axes.set_title("loss in nats per token; that of training with label smoothing", fontsize=_SMALL, loc="left")
    axes.legend(frameon=False, fontsize=_SMALL, loc="upper right")


def _scores(axes: Axes, validations: Events) -> None:
    for name, label, colour in (("bleu", "BLEU", _BLEU), ("chrf", "chrF", _CHRF)):
        _curve(axes, validations, name, label, colour)
        for last in validations[-1:]:
            _at_its_end(axes, f"{label} {last[name]:.1f}", (last["update"], last[name]), colour)
    best = [event for event in validations if event["best"]][-1:]
    for event in best:
        axes.plot(event["update"], event["bleu"], marker="*", markersize=11, color=_BLEU)
        where = f"★ best so far: {event['which']}, BLEU {event['bleu']:.1f}"
        axes.set_title(where, fontsize=_SMALL, loc="left")
    if not best:
        axes.set_title("scores of the validations: none yet", fontsize=_SMALL, loc="left")
    axes.set_ylim(0, max(10.0, axes.get_ylim()[1]))


def _curve(axes: Axes, events: Events, name: str, label: str, colour: str) -> None:
    marker = "o" if events and events[0]["event"] == "validation" else ""
    axes.plot(*_column(events, name), color=colour, label=label, marker=marker, markersize=3, linewidth=1.4)


def _at_its_end(axes: Axes, text: str, point: tuple[int, float], colour: str) -> None:
    axes.annotate(
        text,
        point,
        (9, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=_SMALL,
        annotation_clip=False,
    )


def _frame(axes: Axes, last: int) -> None:
    axes.set_xlim(0, _ROOM * max(1, last))
    axes.set_xlabel("update", fontsize=_SMALL)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(labelsize=_SMALL)
    axes.grid(axis="y", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _column(events: Events, name: str) -> tuple[list[int], list[float]]:
    return [event["update"] for event in events], [event[name] for event in events]
