"""What `dragoman inspect` prints: what was written and how sure the model was, the map, or all the heads."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from dragoman.inspection.heads import HeadHabit
    from dragoman.inspection.trace import Tokens, Trace
    from dragoman.inspection.view import View


def show_texts(console: Console, trace: "Trace", unchanged: "Trace | None", badge: str | None) -> None:
    """What was read and what was written: by the changed model below the unchanged one, where there are both."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True, style="dim")
    lines.add_column(overflow="fold")
    lines.add_row("source", _shown(trace.source.text))
    unknown = _unknown(trace.source)
    if unknown:
        lines.add_row("", Text(unknown))
    if unchanged is not None:
        _add(lines, "translation" if unchanged.free else "target", unchanged)
    _add(lines, "changed" if trace.interventions else "translation" if trace.free else "target", trace)
    if trace.interventions:
        from dragoman.inspection.intervention import said

        same = unchanged is not None and unchanged.free and unchanged.target.ids == trace.target.ids
        lines.add_row("", Text(f"with {said(trace.interventions)}{': the same words' if same else ''}"))
    if badge is not None:
        lines.add_row("what if", Text(badge + " (of the model as it is)" * bool(trace.interventions)))
    console.print(lines, Text())


def show_map(console: Console, trace: "Trace", seen: "View", reason: str) -> None:
    """The map with its caption, why it is this one, and what is to be known before it is believed."""
    from dragoman.inspection.terminal import heat_map

    if trace.interventions:
        redundant = "Heads are redundant: the same words without a head do not show that it does nothing."
        console.print(Text(f"The map is of the changed model. {redundant}"))
    if reason:
        console.print(Text(f"{reason[0].upper()}{reason[1:]}."))
    console.print(heat_map(seen.matrix, seen.rows, seen.columns, seen.caption))


def show_heads(console: Console, trace: "Trace", habits: "Sequence[HeadHabit]") -> None:
    """A line for each head, below the name of its attention."""
    from dragoman.inspection.view import CAVEAT, provenance

    for name, of_name in groupby(habits, lambda habit: habit.name):
        lines = Table.grid(padding=(0, 2))
        lines.add_column(justify="right", width=4)
        lines.add_column(width=len("previous token"), style="bold")
        lines.add_column(overflow="fold")
        for habit in of_name:
            lines.add_row(str(habit.head), habit.label, Text(habit.evidence.removesuffix("; over 1 sentence")))
        console.print(Text(name, "cyan"), lines)
    anecdote = "All over this one sentence, which is an anecdote."
    console.print(Text(f"Attention weights; {provenance(trace)}. {CAVEAT} {anecdote}", "dim"))


def _add(lines: Table, name: str, trace: "Trace") -> None:
    lines.add_row(name, _shown(trace.target.text))
    lines.add_row("", Text(_sureness(trace)))


def _unknown(source: "Tokens") -> str:
    """Letters that the model has not learned; it may still have to translate them."""
    from dragoman.inspection.view import single_bytes

    count = len(single_bytes(source))
    pieces = f"{count} of {len(source) - 1} source pieces {'is a single byte' if count == 1 else 'are single bytes'}"
    return f"{pieces}: this model has not learned these letters" if count else ""


def _sureness(trace: "Trace") -> str:
    """How probable it was, which token least, and whether the model chose it."""
    from dragoman.inspection.labels import clean

    each = trace.log_probabilities
    least = int(each.argmin())
    chosen = "free-running" if trace.free else "forced (teacher forcing)"
    return (
        f"log-probability {each.sum():.2f}, {each.mean():.2f} per token over {len(each)}; lowest at "
        f"{clean(trace.target.pieces[least])} ({each[least]:.2f}); {chosen}{', cut at the length limit' * trace.cut}"
    )


def _shown(text: str) -> Text:
    """Harmless, and turning no line but its own."""
    from dragoman.inspection.labels import clean
    from dragoman.inspection.terminal import padded

    return Text(padded(clean(text), 0))
