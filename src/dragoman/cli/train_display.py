"""Display of training events: a live view on a terminal, plain lines when piped."""

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dragoman.cli.progress import show_progress
from dragoman.evaluation.metric_options import METRIC_TITLES, VALIDATION_METRICS
from dragoman.experiment.log import Event, EventCallback
from dragoman.io.progress import Progress


class TrainingDisplay:
    """The display of `dragoman train`: progress and training events on standard error, results on standard output.

    Use it in a `with` statement. Only one live view is open at a time: progress bars while the text is prepared, then
    the view of training.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.open = ExitStack()
        self.report: Progress | None = None
        self.view: EventCallback | None = None
        self.verdict: Event | None = None
        self.comparison: Event | None = None

    def __enter__(self) -> "TrainingDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        self.open.close()

    def progress(self, what: str, done: int, total: int | None = None, unit: str = "") -> None:
        """Show the progress of a preparation step."""
        if self.report is None:
            self.report = self.open.enter_context(show_progress(self.quiet))
        self.report(what, done, total, unit)

    def __call__(self, event: Event) -> None:
        """Show a training event."""
        if event["event"] == "verdict":
            self.verdict = event
        if event["event"] == "comparison":
            self.comparison = event
        if event["event"] in ("plan", "note", "finished", "stopped"):
            self.open.close()
            self.report = self.view = None
            _print_message(event, self.quiet, self.verdict, self.comparison)
        elif not self.quiet:
            if self.view is None:
                self.open.close()
                self.view = self._open_view()
            self.view(event)

    def _open_view(self) -> EventCallback:
        if not sys.stderr.isatty():
            return _Lines()
        view = _LiveView()
        view.live = self.open.enter_context(Live(view, console=_console(stderr=True), refresh_per_second=4))
        return view


def _print_message(event: Event, quiet: bool, verdict: Event | None = None, comparison: Event | None = None) -> None:
    """Print an event outside the live view: planned settings, a note, or the end of training."""
    match event["event"]:
        case "stopped":
            _console(stderr=True).print(event["message"], soft_wrap=True)
        case "plan" if not quiet:
            _print_plan(event)
        case "note" if not quiet:
            _console().print(event["message"], soft_wrap=True)
        case "finished" if not quiet:
            folder = Path(event["folder"])
            sentence = "A text."
            if verdict:
                print(verdict["message"], *map(_sample_lines, verdict["samples"]), sep="\n")
                sentence = min((source for source, _, _ in verdict["samples"]), key=len)
            if comparison:
                _print_comparison(comparison)
            before = "finished already: " if event["was_finished"] else ""
            print(f"{before}the model is in {folder / 'bundle'}, its curves in {folder / 'curves.png'}")
            to = ["--to", event["to"]] if "to" in event else []
            print(f"to try the model: {shlex.join(['dragoman', 'translate', str(folder), *to, sentence])}", flush=True)


def _print_plan(event: Event) -> None:
    """Print the planned settings as a table, followed by warnings."""
    console = _console()
    if event["choices"]:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for what, value, reason in event["choices"]:
            table.add_row(what, Text.assemble((value, "bold"), f": {reason}"))
        console.print(table)
    for warning in event["warnings"]:
        console.print(Text(f"note: {warning}", style="yellow"))


def _print_comparison(event: Event) -> None:
    """Print BLEU before and after training, with the p-value of a paired bootstrap, and notes."""
    console = _console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(("test set", "pairs", "BLEU before", "after", "difference", "p")):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in event["rows"]:
        difference, p_value = round(row["after"] - row["before"], 1) + 0.0, row["p_value"]  # + 0.0: never -0.0
        numbers = (f"{row['num_pairs']:,}", f"{row['before']:.1f}", f"{row['after']:.1f}", f"{difference:+.1f}")
        table.add_row(row["test_set"], *numbers, "-" if p_value is None else f"{p_value:.3f}")
    console.print(table)
    for note in event["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def _console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False)


def clock(seconds: float) -> str:
    """Format seconds as 1:02:03, or 2:03 below an hour."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


_SECONDS_PER_LINE: Final = 10.0
_MAX_MARKS: Final = 1000

_LINES: Final = {
    "begin": "a model of {parameters:,} parameters, {vocabulary:,} subwords, {pairs:,} pairs{more}; {limit}",
    "update": "{at}  loss {loss:.3f}  rate {rate:.2e}  {tokens_per_second:,.0f} tokens/s",
    "progress": "{at}  loss {loss:.3f}  {tokens_per_second:,.0f} tokens/s",
    "scoring": "translating {test_set} to score the model: {done:,} of {total:,} sentences",
    "stopping": "saving a checkpoint, then stopping; Ctrl-C again stops at once",
    "planned": "{at}  now the time is enough for {last:,} updates",
    "left out": "{at}  left out, because {reason}: {names}",
    "resumed": "{at}  resuming from here{changed}",
    "pieces": "{at}  each batch is cut into {pieces} microbatches, as memory allows",
    "saved": "{at}  the state after update {checkpoint:,} is saved",
    "not saved": "{at}  the state after update {checkpoint:,} was not saved: {reason}",
    "damaged": "{at}  damaged, and left out: {damage}",
    "validation": "{at}  validation: loss {loss:.3f}  BLEU {bleu:.1f}  chrF {chrf:.1f}{further}{by_set}{star}",
    "score": "{test_set}: {metric} {value:.1f} ({low:.1f} to {high:.1f})  {signature}",
    "export": "exported for CTranslate2: {identical:,} of {texts:,} dev sentences are translated as with torch",
    "not exported": "not exported for CTranslate2: {reason}",
    "process lost": "{reason}; resuming from the last checkpoint",
    "stalled": "{message}",
    "studio": "the studio shows this training: {address}",
    "end": "{at}  end: {why}; keeping {kept}",
}
"""Format of the line for each event, with the fields of the event and those added by `describe_event`."""


def describe_event(event: Event) -> str | None:
    """Return one line about an event, or None if the event is not shown."""
    kind = "not exported" if event["event"] == "export" and "reason" in event else event["event"]
    if kind not in _LINES:
        return None
    changed = ""
    if "now" in event:
        before, now = (f"{processes} x {threads}" for processes, threads in (event["then"], event["now"]))
        changed = f"; with {now} threads instead of {before}, the same batches give slightly different weights"
    if "device_then" in event:
        moved = f"on {event['device']} instead of {event['device_then']}"
        changed += f"; {moved}, the same batches give slightly different weights"
    return _LINES[kind].format(
        **event,
        at=f"{event.get('update', 0):>7,}  {clock(event.get('seconds', 0.0)):>7}",
        names="; ".join(event.get("batches", ())),
        changed=changed,
        more=f" and {event['added']:,} added by augmentation" if event.get("added") else "",
        damage=event["checkpoint"] if "checkpoint" in event else f"{event.get('snapshots')} snapshots",
        further="".join(f"  {title} {value:.1f}" for title, value in _further_scores(event).items()),
        by_set=_describe_sets(event.get("sets", ())),
        star="  best so far" if event.get("best") else "",
        limit=f"up to {clock(event['time'])} of training" if event.get("time") else f"{event.get('last', 0):,} updates",
    )


def _further_scores(event: Event) -> dict[str, float]:
    """Return the metrics that the recipe adds to BLEU and chrF, by their titles."""
    return {
        title: event[name] for name, title in METRIC_TITLES.items() if name in event.keys() - set(VALIDATION_METRICS)
    }


def _describe_sets(sets: Sequence[Mapping[str, Any]]) -> str:
    """Return the BLEU of each validation set, if there are several."""
    scores = ", ".join(f"{of_set['name']} {of_set['bleu']:.1f}" for of_set in sets)
    return f" ({scores})" if sets else ""


class _Lines:
    """Plain lines on standard error: one for each logged event but new plans, and one at least every ten seconds."""

    def __init__(self) -> None:
        self.printed_at = time.monotonic()

    def __call__(self, event: Event) -> None:
        line, now = describe_event(event), time.monotonic()
        is_frequent = event["event"] in ("progress", "planned", "scoring")
        if line is None or (is_frequent and now - self.printed_at < _SECONDS_PER_LINE):
            return
        self.printed_at = now
        print(line, *map(_sample_lines, event.get("samples", ())), sep="\n", file=sys.stderr, flush=True)


def _sample_lines(sample: tuple[str, str, str]) -> str:
    source, target, hypothesis = sample
    return f"{'':18}{source}\n{'':16}= {target}\n{'':16}> {hypothesis}"


class _LiveView:
    """A live view: a progress bar with metrics and samples below, and log lines scrolling above.

    The view is drawn four times a second, with the time since the last event added to the time of that event.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.live: Live | None = None
        self.now = now
        self.estimate, self.received = TimeEstimate(), now()
        self.status = ""
        self.numbers: dict[str, str] = {}
        self.samples: list[tuple[str, str, str]] = []

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind in ("begin", "resumed", "progress", "update", "planned", "validating"):
            self.estimate.add(event)
            self.received = self.now()
        self.status = {"validating": "validating", "end": "writing the model"}.get(kind, self.status)
        if kind in ("progress", "update"):
            self.status = "training"
            self.numbers |= {"loss": f"{event['loss']:.3f}", "tokens/s": f"{event['tokens_per_second']:,.0f}"}
        if kind in ("scoring", "stopping"):
            self.status = describe_event(event) or ""
        elif kind not in ("progress", "update", "planned") and (line := describe_event(event)) and self.live:
            style = {"left out": "red", "not saved": "red", "end": "bold", "score": "bold"}.get(kind, "")
            self.live.console.print(Text(line, style=style), soft_wrap=True)
        if kind == "validation":
            scores = {"BLEU": event["bleu"], "chrF": event["chrf"]} | _further_scores(event)
            self.numbers |= {title: f"{value:.1f}" for title, value in scores.items()}
            self.samples = event["samples"]
        if kind == "end":
            self.estimate.is_over = True
        if kind == "verdict":  # it is printed below the view, with its samples
            self.status, self.samples = "", []

    def __rich__(self) -> Group:
        elapsed = self.estimate.seconds + self.now() - self.received
        left = self.estimate.left(elapsed)
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=elapsed + left, completed=elapsed, width=30)
        head.add_row(bar, f"{clock(elapsed)} gone", "" if self.estimate.is_over else f"about {clock(left)} left")
        update = f"update {self.estimate.update:,}   "
        numbers = Text(update + "   ".join(f"{name} {value}" for name, value in self.numbers.items()), style="cyan")
        return Group(head, numbers, Text(self.status, style="dim"), *(_sample(*sample) for sample in self.samples))


class TimeEstimate:
    """An estimate of the time left: to the time limit, or to the end of the last validation if that comes first."""

    def __init__(self) -> None:
        self.update, self.last, self.seconds = 0, 1, 0.0
        self.limit: float | None = None
        self.is_over = False
        self.marks: list[tuple[int, float]] = []
        """Updates, and the seconds of training before them, without validations."""
        self.validations: list[int] = []
        """The updates after which validations began."""
        self.validation_seconds = self.validated_seconds = 0.0
        """The duration of the last validation, with the curves and files written after it, and of all of them."""
        self.is_validating = False

    def add(self, event: Event) -> None:
        """Take the progress, the last update, the time limit and the validations from an event."""
        if event["event"] == "validating" and not event["update"]:
            return  # a parent is validated before the first update, which is no part of the training time
        if event["event"] == "validating":
            self.validations.append(event["update"])
            self.is_validating = True
            self.update, self.seconds = event["update"], event["seconds"]
            return
        if self.is_validating:
            trained = (event["update"] - self.update) * (self._seconds_per_update() or 0.0)
            self.validation_seconds = max(0.0, event["seconds"] - self.seconds - trained)
            self.validated_seconds += self.validation_seconds
            self.is_validating = False
        self.limit, self.last = event.get("time", self.limit), event.get("last", self.last)
        self.update, self.seconds = event["update"], event["seconds"]
        if event["event"] in ("begin", "resumed"):  # the time before an interruption is no measure of the speed now
            self.marks = []
        self.marks.append((self.update, self.seconds - self.validated_seconds))
        if len(self.marks) > _MAX_MARKS:
            self.marks = self.marks[::2]

    def left(self, elapsed: float) -> float:
        """Return the seconds left after so many seconds of training."""
        if self.is_over:
            return 0.0
        limit = float("inf") if self.limit is None else self.limit - elapsed
        each = self._seconds_per_update()
        if each is None:
            return max(0.0, limit) if self.limit else 0.0
        updates = (self.last - self.update) * each
        validations = (self._num_validations_left() + self.is_validating) * self.validation_seconds
        return max(0.0, min(limit, updates + validations - (elapsed - self.seconds)))

    def _num_validations_left(self) -> int:
        """Return the number of validations to come, at the distance of the last two; one follows the last update."""
        if not self.validations or self.validations[-1] >= self.last:
            return int(not self.validations)
        before, newest = [0, *self.validations][-2:]
        return (self.last - 1 - newest) // max(1, newest - before) + 1

    def _seconds_per_update(self) -> float | None:
        """Return the duration of an update in the last third of the training, since the machine's load may change."""
        if not self.marks:
            return None
        update, now = self.marks[-1]
        old = now - (now - self.marks[0][1]) / 3
        then = max((mark for mark in self.marks if mark[1] <= old), default=self.marks[-1])
        return (now - then[1]) / (update - then[0]) if update > then[0] else None


def _sample(source: str, target: str, hypothesis: str) -> Text:
    """Return source, reference and hypothesis, each cut to one line."""
    shown = Text(no_wrap=True, overflow="ellipsis")
    return shown.append(f"{source}\n= {target}\n", "dim").append(f"> {hypothesis}")
