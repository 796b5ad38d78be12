"""Draw the curves of a run: loss, learning rate and validation scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from dragoman.experiment.verdict import describe_bleu

Events = Sequence[dict[str, Any]]

_LOSS, _HELD_OUT, _BLEU, _CHRF = "#4477aa", "#ee6677", "#228833", "#aa3377"
_RATE, _FAINT, _QUIET = "#eeeeee", "#dddddd", "#777777"

_SMALL: Final = 8.5
_LABEL: Final = 0.07
"""The height of a label relative to the y axis."""
_MARGIN: Final = 1.2
"""The length of the x axis relative to the curves, with space for labels at the right end."""


def draw(events: Events, path: Path, title: str) -> None:
    """Draw the events of a log to an image file, without pyplot, which keeps every figure in memory."""
    updates = [event for event in events if event["event"] == "update"]
    validations = [event for event in events if event["event"] == "validation"]
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _losses(left, updates, validations)
    _scores(right, validations)
    for axes in (left, right):
        _frame(axes, max((event["update"] for event in events), default=1))
    figure.suptitle(_title(title, validations), fontsize=11)
    beside = path.with_name(f".{path.name}.unfinished")
    figure.savefig(beside, format=path.suffix[1:], dpi=110)
    beside.replace(path)


def _title(name: str, validations: Events) -> str:
    """Return a title that says which run this is and how good its best weights are."""
    best = [event["bleu"] for event in validations if event["best"]][-1:]
    return f"{name}: BLEU {best[0]:.1f} on the validation pairs ({describe_bleu(best[0])})" if best else name


def _losses(axes: Axes, updates: Events, validations: Events) -> None:
    """Draw training and validation loss, with the learning rate as a shaded background."""
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
    axes.set_title("loss in nats per token (training loss with label smoothing)", fontsize=_SMALL, loc="left")
    axes.legend(frameon=False, fontsize=_SMALL, loc="upper right")


def _scores(axes: Axes, validations: Events) -> None:
    for name, label, colour in (("bleu", "BLEU", _BLEU), ("chrf", "chrF", _CHRF)):
        _curve(axes, validations, name, label, colour)
    title = "validation scores: none yet"
    for event in [event for event in validations if event["best"]][-1:]:
        axes.plot(event["update"], event["bleu"], marker="*", markersize=11, color=_BLEU)
        title = f"validation scores; ★ the weights of {event['which']} are the best so far"
    axes.set_title(title, fontsize=_SMALL, loc="left")
    axes.set_ylim(0, max(10.0, axes.get_ylim()[1]))
    for last in validations[-1:]:
        heights = label_heights((last["bleu"], last["chrf"]), axes.get_ylim()[1])
        _label_end(axes, f"BLEU {last['bleu']:.1f}", (last["update"], heights[0]), _BLEU)
        _label_end(axes, f"chrF {last['chrf']:.1f}", (last["update"], heights[1]), _CHRF)


def label_heights(values: tuple[float, float], top: float) -> tuple[float, float]:
    """Return the heights of two labels: those of their values, moved apart if the labels would overlap."""
    first, second = values
    missing = _LABEL * top - abs(second - first)
    if missing <= 0:
        return values
    up = missing / 2 if second >= first else -missing / 2
    lift = max(0.0, missing / 2 - min(values))  # not below the axis
    return first - up + lift, second + up + lift


def _curve(axes: Axes, events: Events, name: str, label: str, colour: str) -> None:
    marker = "o" if events and events[0]["event"] == "validation" else ""
    axes.plot(*_column(events, name), color=colour, label=label, marker=marker, markersize=3, linewidth=1.4)


def _label_end(axes: Axes, text: str, point: tuple[int, float], colour: str) -> None:
    place: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(text, point, (9, 0), color=colour, fontsize=_SMALL, **place)


def _frame(axes: Axes, last: int) -> None:
    axes.set_xlim(0, _MARGIN * max(1, last))
    axes.set_xlabel("update", fontsize=_SMALL)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(labelsize=_SMALL)
    axes.grid(axis="y", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _column(events: Events, name: str) -> tuple[list[int], list[float]]:
    return [event["update"] for event in events], [event[name] for event in events]
