"""A training as it goes on: a live view on a terminal, plain lines when piped."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

Event = dict[str, Any]
Tell = Callable[[Event], None]


@contextmanager
def display(wanted: bool = True) -> Iterator[Tell]:
    """Show on standard error what is told; nothing, if it is not wanted."""
    if not wanted:
        yield lambda _: None
    elif sys.stderr.isatty():
        with Live(console=Console(stderr=True, highlight=False), refresh_per_second=4) as live:
            yield _View(live)
    else:
        yield _Lines()


def clock(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def said(event: Event) -> str | None:
    """One line about an event; None about those that are no news."""
    at = f"{event.get('update', 0):>7,}  {clock(event.get('seconds', 0.0)):>7}"
    match event["event"]:
        case "begin":
            sizes = f"{event['parameters']:,} parameters, {event['vocabulary']:,} subwords, {event['pairs']:,} pairs"
            return f"a model of {sizes}; up to {event['last']:,} updates"
        case "update":
            return (
                f"{at}  loss {event['loss']:.3f}  rate {event['rate']:.2e}  {event['tokens_per_second']:,.0f} tokens/s"
            )
        case "planned":
            return f"{at}  the time is enough for {event['last']:,} updates"
        case "left out":
            return f"{at}  left out, because {event['reason']}: {'; '.join(event['batches'])}"
        case "resumed":
            changed = f"; {_changed(event['then'], event['now'])}" if "now" in event else ""
            return f"{at}  going on from here{changed}"
        case "pieces":
            cut = f"each batch is cut into {event['pieces']} pieces, for lack of memory"
            return f"{at}  {cut if event['pieces'] > 1 else 'memory is enough for the longest batch'}"
        case "saved":
            return f"{at}  the state after update {event['checkpoint']:,} is saved"
        case "not saved":
            return f"{at}  the state after update {event['checkpoint']:,} could not be saved: {event['reason']}"
        case "damaged" if "checkpoint" in event:
            return f"a checkpoint is damaged: {event['checkpoint']}"
        case "damaged":
            return f"{at}  {event['snapshots']:,} snapshots cannot be read again, and are left out of the average"
        case "validation":
            star = "  best so far" if event["best"] else ""
            scores = f"loss {event['loss']:.3f}  BLEU {event['bleu']:.1f}  chrF {event['chrf']:.1f}"
            return f"{at}  validation: {scores}{star}"
        case "score":
            interval = f"{event['low']:.1f} to {event['high']:.1f}"
            return f"{event['test_set']}: {event['metric']} {event['value']:.1f} ({interval})  {event['signature']}"
        case "export":
            if "reason" in event:
                return f"not exported for CTranslate2: {event['reason']}"
            same = f"{event['identical']:,} of {event['texts']:,} dev sentences become the same as with torch"
            return f"exported for CTranslate2: {same}"
        case "end":
            return f"{at}  end: {event['why']}; keeping {event['kept']}"
    return None


def _changed(then: tuple[int, int], now: tuple[int, int]) -> str:
    """That bitwise the same weights are no longer to be expected."""
    before, after = (
        f"{_some(processes, 'process')} of {_some(threads, 'thread')}" for processes, threads in (then, now)
    )
    return f"it ran in {before} and now in {after}: same batches, but numbers will differ in their last digits"


def _some(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


class _Lines:
    """For a log file: every event is a line, and samples follow their validation."""

    def __call__(self, event: Event) -> None:
        line = said(event)
        if line:
            print(line, file=sys.stderr, flush=True)
        for source, target, hypothesis in event.get("samples", ()):
            print(f"{'':18}{source}\n{'':16}= {target}\n{'':16}> {hypothesis}", file=sys.stderr, flush=True)


class _View:
    """A bar with numbers below it; validations and what is out of order scroll by above it."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.last, self.update, self.seconds = 1, 0, 0.0
        self.numbers: dict[str, str] = {}
        self.samples: list[tuple[str, str, str]] = []

    def __call__(self, event: Event) -> None:
        self.last = event.get("last", self.last)
        self.update, self.seconds = event.get("update", self.update), event.get("seconds", self.seconds)
        if event["event"] == "update":
            self.numbers |= {
                "loss": f"{event['loss']:.3f}",
                "tokens/s": f"{event['tokens_per_second']:,.0f}",
                "rate": f"{event['rate']:.1e}",
            }
        elif line := said(event):
            style = {"left out": "red", "not saved": "red", "end": "bold", "score": "bold"}.get(event["event"], "")
            self.live.console.print(Text(line, style=style), soft_wrap=True)
        if event["event"] == "validation":
            self.numbers |= {"BLEU": f"{event['bleu']:.1f}", "chrF": f"{event['chrf']:.1f}"}
            self.samples = event["samples"]
        self.live.update(self._drawn())

    def _drawn(self) -> Group:
        left = self.seconds / max(1, self.update) * (self.last - self.update)
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.last, completed=self.update, width=30)
        count = f"{self.update:,} of {self.last:,}"
        head.add_row(bar, count, f"{clock(self.seconds)} gone, {clock(left)} left")
        numbers = Text("   ".join(f"{name} {value}" for name, value in self.numbers.items()), style="cyan")
        return Group(head, numbers, *(_sample(*sample) for sample in self.samples))


def _sample(source: str, target: str, hypothesis: str) -> Text:
    """Source, then what was hoped for and what came, each cut to a line."""
    lines = ((source, "dim"), (f"= {target}", "dim"), (f"> {hypothesis}", ""))
    text = Text(no_wrap=True, overflow="ellipsis")
    for i, (line, style) in enumerate(lines):
        text.append(("\n" if i else "") + line, style=style)
    return text
