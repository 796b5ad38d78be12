"""Output of `dragoman inspect`: print the translation with its attention, and write the files."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.cli.output_files import STDOUT, write_output
from dragoman.cli.verbosity import print_note
from dragoman.inspection.heads import HeadSummary
from dragoman.inspection.interventions import describe_interventions
from dragoman.inspection.labels import clean
from dragoman.inspection.terminal import HeatMap, padded
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import CAVEAT, MapChoice, MapView, provenance, single_bytes, target_mode


class InspectResult(NamedTuple):
    """The result of `dragoman inspect`: a trace, the trace of the unchanged model, and the --counterfactual text."""

    trace: Trace
    unchanged: Trace | None = None
    """Trace of the unchanged model, if `trace` has interventions."""
    counterfactual: str | None = None

    def notes(self) -> Mapping[str, str]:
        """Return notes to include in the output files: the unchanged translation, and the --counterfactual text."""
        notes = {}
        if self.unchanged is not None and self.unchanged.free:
            notes["unchanged"] = self.unchanged.target.text
        if self.counterfactual is not None:
            notes["what if"] = self.counterfactual + " (of the unchanged model)" * bool(self.trace.interventions)
        return notes


def print_texts(console: Console, result: InspectResult) -> None:
    """Print the source and the translation; with interventions, the unchanged translation first."""
    trace, unchanged, _ = result
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True, style="dim")
    lines.add_column(overflow="fold")
    lines.add_row("source", _printable(trace.source.text))
    count = len(single_bytes(trace.source))
    if count:
        pieces = f"{count} of {len(trace.source) - 1} source pieces are single bytes"
        lines.add_row("", Text(f"{pieces}: this model does not know these characters"))
    for name, each in (("", unchanged), ("changed" if trace.interventions else "", trace)):
        if each is not None:
            lines.add_row(name or ("translation" if each.free else "target"), _printable(each.target.text))
            lines.add_row("", Text(_probabilities(each)))
    if trace.interventions:
        is_same = unchanged is not None and unchanged.free and unchanged.target.ids == trace.target.ids
        changes = describe_interventions(trace.interventions)
        lines.add_row("", Text(f"with {changes}{': the same words' if is_same else ''}"))
    if result.counterfactual is not None:
        lines.add_row("what if", Text(result.notes()["what if"]))
    console.print(lines, Text())


def print_map(console: Console, trace: Trace, shown: MapView, reason: str) -> None:
    """Print the attention map, the reason for choosing this head, and a warning if the model was changed."""
    if trace.interventions:
        redundant = "Heads are redundant: an unchanged translation does not show that a head has no effect."
        console.print(Text(f"The map is of the changed model. {redundant}"))
    if reason:
        console.print(Text(f"{reason[0].upper()}{reason[1:]}."))
    console.print(HeatMap(shown))


def print_heads(console: Console, trace: Trace, summaries: Sequence[HeadSummary]) -> None:
    """Print one line per head, grouped by attention layer."""
    for name, of_name in groupby(summaries, lambda summary: summary.name):
        lines = Table.grid(padding=(0, 2))
        lines.add_column(justify="right", width=4)
        lines.add_column(width=len("previous token"), style="bold")
        lines.add_column(overflow="fold")
        for summary in of_name:
            lines.add_row(str(summary.head), summary.label, Text(summary.evidence.removesuffix("; over 1 sentence")))
        console.print(Text(name, "cyan"), lines)
    anecdote = "These values are of one sentence, which is an anecdote."
    console.print(Text(f"Attention weights; {provenance(trace)}. {CAVEAT} {anecdote}", "dim"))


def write_files(
    files: Sequence[tuple[str, Path]], result: InspectResult, choice: MapChoice, summaries: list[HeadSummary] | None
) -> Iterator[Path]:
    """Write each file and yield its path; with `summaries`, files describe all heads instead of one map."""
    shown_warnings = set[str]()
    for option, path in files:
        if option == "--output":
            missing = _draw(path, result.trace, choice, every_head=summaries is not None)
            for warning in sorted(missing - shown_warnings):
                print_note(warning)
            shown_warnings |= missing
        elif option == "--save":
            result.trace.save(path.resolve())
        else:
            write_output(path, _text(option, result, choice, summaries))
        if path != STDOUT:
            yield path


def _text(option: str, result: InspectResult, choice: MapChoice, summaries: list[HeadSummary] | None) -> str:
    from dragoman.inspection import exports
    from dragoman.inspection.trace_page import trace_page

    trace, notes = result.trace, result.notes()
    if option == "--html":
        return trace_page(trace, choice, notes)
    if option == "--moses":
        return exports.moses(trace, choice)
    if summaries is None:
        return exports.map_json(trace, choice, notes) if option == "--json" else exports.map_csv(choice.view(trace))
    return exports.heads_json(trace, summaries, notes) if option == "--json" else exports.heads_csv(summaries)


def _draw(path: Path, trace: Trace, choice: MapChoice, every_head: bool) -> set[str]:
    """Draw the map or all heads, and return warnings about missing glyphs."""
    from dragoman.inspection import plots

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        every = plots.heads(trace, choice.kind, choice.measure) if every_head else None
        plots.save(every or plots.attention(trace, choice), path)
    # An SVG is drawn with its viewer's fonts, which may have what is missing here.
    return set() if path.suffix.lower() == ".svg" else {str(warning.message) for warning in caught}


def _probabilities(trace: Trace) -> str:
    """Describe the log-probability of the target, its least probable token, and the decoding mode."""
    each = trace.log_probabilities
    least = int(each.argmin())
    mode = f"{target_mode(trace)}{', cut at the length limit' * trace.cut}"
    return (
        f"log-probability {each.sum():.2f}, {each.mean():.2f} per token over {len(each)}; lowest at "
        f"{clean(trace.target.pieces[least])} ({each[least]:.2f}); {mode}"
    )


def _printable(text: str) -> Text:
    """Return a text with control characters replaced by `·`; right-to-left text is wrapped in bidi isolates."""
    return Text(padded(clean(text), 0))
