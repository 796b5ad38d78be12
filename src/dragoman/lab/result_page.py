"""The picture and the page of a result, and the report of several results, in Markdown."""

import statistics
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dragoman.inspection.plots import save
from dragoman.inspection.plots.canvas import INK, SECOND, SMALL
from dragoman.io.durable import write_durably
from dragoman.lab.experiment import Criterion, Experiment, Interval, Panel
from dragoman.lab.run_experiment import ExperimentResult, load_experiment

PICTURE_FILE: Final = "picture.svg"
PAGE_FILE: Final = "page.md"
_COLOURS: Final = (INK, SECOND, "#2f7d4f", "#7a4fa3", "#555555", "#a8861a")
_STROKES: Final = ("-", "--", ":", "-.")
_RULE: Final = (
    "holds if every line is met by the whole 95 % interval, fails as told if every line is refuted by it, depends "
    "otherwise"
)


def write_page(result: ExperimentResult, folder: Path) -> None:
    """Write the picture and the page of a result into its folder."""
    save(draw(result), folder / PICTURE_FILE)
    text = f"# {result.name}\n\n{describe(result, PICTURE_FILE)}"
    write_durably(folder / PAGE_FILE, text.encode())


def write_report(results: Sequence[ExperimentResult], output: Path) -> None:
    """Write one page about all results; their pictures and numbers are in a folder with the name of the page."""
    pictures = output.with_suffix("")
    pictures.mkdir(exist_ok=True)
    for result in results:
        write_durably(pictures / f"{result.name}.json", result.model_dump_json().encode())
        save(draw(result), pictures / f"{result.name}.svg")
    write_durably(output, render_report(results, pictures.name).encode())


def render_report(results: Sequence[ExperimentResult], pictures: str) -> str:
    """Return the page about all results; `pictures` is the folder of the pictures, seen from the page."""
    rows = [
        f"| [{result.name}](#{result.name}) | {load_experiment(result.name).claim} | **{result.verdict}** |"
        for result in results
    ]
    parts = [_HEAD, "\n".join(["| experiment | claim | verdict |", "|---|---|---|", *rows])]
    parts += [f"## {result.name}\n\n{describe(result, f'{pictures}/{result.name}.svg')}".strip() for result in results]
    return "\n\n".join(parts) + "\n"


def describe(result: ExperimentResult, picture: str) -> str:
    """Return the text about a result: claim, prediction, method, rule, numbers, verdict and lesson."""
    experiment = load_experiment(result.name)
    small = " At the smallest size, which shows only that the code works." if result.is_smallest else ""
    seconds = max((seed.processor_seconds for seed in result.seeds), default=0.0)
    return f"""\
**Claim.** {experiment.claim} ({experiment.source})

**Prediction.** {experiment.prediction}

**Method.** {experiment.method}

**Rule.** The claim {_RULE}:

{_criteria(experiment, result)}

{_numbers(experiment, result)}

![{result.name}]({picture})

*The mean over {len(result.seeds)} seeds, with the range of the seeds as a shade.{small}*

**Verdict: {result.verdict}.**{f" {experiment.lesson}" if experiment.lesson else ""}

```bash
dragoman lab run {result.name} --seeds {len(result.seeds)}{" --smallest" * result.is_smallest}
```

At most {max(seconds, 0.1):.1f} s of processor time per seed.
"""


def draw(result: ExperimentResult) -> Axes:
    """Draw the panels of a result: lines are means over the seeds, shades their ranges. Return the last axes."""
    panels = result.seeds[0].measurement.panels
    figure = Figure(figsize=(1 + 4.2 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for index, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
        _draw_panel(ax, panel, [seed.measurement.panels[index] for seed in result.seeds])
    last: Axes = axes[-1]
    return last


def _draw_panel(ax: Axes, panel: Panel, of_seeds: Sequence[Panel]) -> None:
    for name, colour, stroke in zip(panel.lines, cycle(_COLOURS), cycle(_STROKES), strict=False):
        columns = list(zip(*(seed.lines[name] for seed in of_seeds), strict=True))
        mean = [statistics.fmean(column) for column in columns]
        ax.plot(panel.x, mean, color=colour, linestyle=stroke, marker="o", markersize=3, label=name)
        ax.fill_between(panel.x, list(map(min, columns)), list(map(max, columns)), color=colour, alpha=0.2, linewidth=0)
    ax.set_title(panel.title, fontsize=SMALL + 1, loc="left")
    ax.set_xlabel(panel.x_label, fontsize=SMALL)
    ax.set_ylabel(panel.y_label, fontsize=SMALL)
    if panel.log_x:
        ax.set_xscale("log")
        ax.set_xticks(panel.x, labels=[f"{x:g}" for x in panel.x])
        ax.minorticks_off()
    elif all(x == int(x) for x in panel.x):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_y:
        ax.set_yscale("log")
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.legend(fontsize=SMALL, frameon=False)


def _criteria(experiment: Experiment, result: ExperimentResult) -> str:
    return "\n".join(
        f"- {criterion.reason}: {experiment.numbers[criterion.number]} is {criterion.side} "
        f"{format_number(criterion.bound)} ({_outcome(criterion, result)})"
        for criterion in result.criteria
    )


def _outcome(criterion: Criterion, result: ExperimentResult) -> str:
    if criterion.number not in result.intervals:
        return "undecided"
    met = criterion.is_met(result.intervals[criterion.number])
    return {True: "met", False: "refuted", None: "undecided"}[met]


def _numbers(experiment: Experiment, result: ExperimentResult) -> str:
    rows = ["| number | mean | 95 % interval |", "|---|---|---|"]
    for name, text in experiment.numbers.items():
        interval = result.intervals.get(name)
        if interval is None:
            value = result.seeds[0].measurement.numbers[name] if result.seeds else float("nan")
            rows.append(f"| {text} | {format_number(value)} | needs two seeds |")
        else:
            rows.append(f"| {text} | {format_number(interval.mean)} | {_range(interval)} |")
    return "\n".join(rows)


def _range(interval: Interval) -> str:
    if interval.low == interval.high:
        return "the same for every seed"
    return f"{format_number(interval.low)} to {format_number(interval.high)}"


def format_number(number: float) -> str:
    """Format a number with three digits, such as 0.00123, 12.3 or 1.2e-07."""
    return f"{number:.3g}"


_HEAD: Final = """\
# The lab: claims, measured

`dragoman lab` lists experiments that measure what textbooks and papers claim about attention and translation.
`dragoman lab run NAME` runs one with the parts of this package, and writes its numbers (JSON), a picture and a page. A
finished seed is not run again, so an interrupted run goes on where it stopped. This page is written by `dragoman lab
report` from the stored results: every number here was measured. Sizes and bounds may come from trial runs with other
seeds."""
