"""`dragoman inspect`: show the attention maps of a translation on the terminal and write them to files."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from dragoman.cli.command import (
    MODEL_HELP,
    DeviceOption,
    ToOption,
    check_map_options,
    command_of,
    json_option,
    open_model,
    option,
    output_option,
)
from dragoman.cli.output_files import PICTURES, STDOUT, check_different, check_output_file
from dragoman.cli.verbosity import is_quiet
from dragoman.device import AUTO, check_device

if TYPE_CHECKING:
    from dragoman.attention.kinds import Kind
    from dragoman.bundle import Bundle
    from dragoman.bundle.alignment_head import Measure, Rows
    from dragoman.cli.inspect_output import InspectResult
    from dragoman.inspection.trace import Trace
    from dragoman.inspection.view import MapChoice

_SUFFIXES: Final = {"--output": PICTURES, "--save": (".trace",), "--html": (".html", ".htm")}


_map, _change = partial(option, panel="Which map"), partial(option, panel="What if")
_file = partial(option, "FILE", panel="Files")


@dataclass(frozen=True)
class InspectRequest:
    """Show a model's attention for a sentence and its translation.

    Attention shows where a model looked, not why. The map shows one head of one layer. The default is the stored
    alignment head or, if no head is stored, the mean of the second-last layer as a guess. HEADS are names separated by
    commas, such as encoder.layers.0, decoder.layers.1.cross_attention.2 (head 2 alone) or cross.

        dragoman inspect "A man sleeps on a bench."

        dragoman inspect "A man sleeps." --model run/ --layer 1 --head 2

        dragoman inspect "A man sleeps." --without cross.2 --html map.html
    """

    sentence: Annotated[
        list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentence to inspect; not needed with --trace.")
    ] = None
    model: Annotated[str | None, option("MODEL", f"{MODEL_HELP[:-1]}; default: `demo`.")] = None
    to: ToOption = None
    trace: Annotated[Path | None, option("FILE", "Show a trace written by --save; needs no model.")] = None
    target: Annotated[str | None, option("TEXT", "Inspect this translation instead of the model's own.")] = None
    prefix: Annotated[str | None, option("TEXT", "Make the model's translation begin with this text.")] = None
    beam: Annotated[int | None, option("N", "Beam size; default: the model's own.", least=1)] = None
    device: DeviceOption = AUTO
    kind: Annotated[str | None, _map("cross|encoder|decoder", "Kind of attention; default: cross.")] = None
    layer: Annotated[int | None, _map("N", "Layer of the map, counted from 0; -1 is the last.")] = None
    head: Annotated[str | None, _map("N|mean", "Head of the map, counted from 0; mean averages all heads.")] = None
    rows: Annotated[str | None, _map("written|read", "Label rows with the tokens written or the tokens read.")] = None
    measure: Annotated[str | None, _map("attention|norm", "Show attention weights or norms of weighted values.")] = None
    words: Annotated[bool, _map(None, "Merge subwords into words.", "--words")] = False
    hide_sinks: Annotated[bool, _map(None, "Hide punctuation and EOS; renormalise the rows.", "--hide-sinks")] = False
    heads: Annotated[bool, _map(None, "List all heads with their roles instead of a map.", "--heads")] = False
    without: Annotated[str | None, _change("HEADS", "Set the output of HEADS to zero and translate again.")] = None
    uniform: Annotated[str | None, _change("HEADS", "Make the attention of HEADS uniform and translate again.")] = None
    counterfactual: Annotated[
        bool, _change(None, "Count tokens unchanged by permuted or uniform cross-attention.", "--counterfactual")
    ] = False
    output: Annotated[
        list[Path] | None, output_option("Write the attention map as .png, .svg or .pdf (repeatable).", "Files")
    ] = None
    html: Annotated[Path | None, _file("Write one HTML file with all maps, heads and the search, for any browser.")] = (
        None
    )
    json: Annotated[Path | None, json_option("Write tokens, probabilities and map as JSON", "Files")] = None
    csv: Annotated[Path | None, _file("Write the attention map as CSV; - for standard output.")] = None
    moses: Annotated[Path | None, _file("Write the word alignment, as in 0-0 1-2; - for standard output.")] = None
    save: Annotated[Path | None, _file("Save the trace as FILE.trace, to reopen with --trace.")] = None
    history: Annotated[bool, option(None, "Save beam candidates in the trace.", "--history", panel="Files")] = False

    @property
    def files(self) -> list[tuple[str, Path]]:
        """The output files, each with the name of its option."""
        names = ("html", "json", "csv", "moses", "save")
        others = [(f"--{name}", path) for name in names if (path := getattr(self, name)) is not None]
        return [("--output", path) for path in self.output or []] + others

    def check(self) -> None:
        """Raise ValueError for options that contradict each other, before loading a model or trace."""
        if self.trace is not None:
            self._refuse(
                "--trace shows a saved trace and runs no model", "sentence", "model", "to", "target", "prefix", "beam",
                "without", "uniform", "counterfactual", "history", "save",
            )  # fmt: skip
        else:
            _check_sentence(self.sentence or [])
        if self.target is not None:
            self._refuse("--target fixes the translation and runs no search", "prefix", "beam", "history")
        if self.history and self.save is None:
            raise ValueError("--history needs a trace file: add --save FILE.trace")
        check_device(self.device, "--device")
        check_map_options(self.kind, self.head, self.rows, self.measure)
        if self.heads:
            self._refuse("--heads lists every head", "layer", "head", "rows", "measure", "words", "hide_sinks")
        if self.kind == "encoder" and self.rows is not None:
            raise ValueError("--rows labels target tokens, and encoder maps have none: leave out --rows")
        if self.kind not in (None, "cross") and self.words:
            raise ValueError("--words needs cross-attention: leave out --kind or --words")
        for name, path in self.files:
            check_output_file(name, path, _SUFFIXES.get(name, ()))
        check_different(*((name, path) for name, path in self.files if path != STDOUT))
        printed = [name for name, path in self.files if path == STDOUT]
        if len(printed) > 1:
            raise ValueError(f"{printed[0]} - and {printed[1]} - both use standard output: give {printed[1]} a file")

    def run(self) -> None:
        """Print the attention map of the sentence or the saved trace, and write the files."""
        self.check()
        result = self._inspect()
        from rich.console import Console
        from rich.text import Text

        from dragoman.cli import inspect_output

        trace = result.trace
        choice, summaries = self._choose_map(trace), None
        if self.heads:
            from dragoman.inspection.heads import summarise_heads

            summaries = [summary for summary in summarise_heads([trace]) if self.kind in (None, summary.kind)]
        shown = choice.view(trace)  # before anything is printed, as there may be no such head
        console = Console(stderr=any(path == STDOUT for _, path in self.files), highlight=False, markup=False)
        inspect_output.print_texts(console, result)
        if summaries is None:
            inspect_output.print_map(console, trace, shown, choice.reason)
        else:
            inspect_output.print_heads(console, trace, summaries)
        for path in inspect_output.write_files(self.files, result, choice, summaries):
            if not is_quiet():
                console.print(Text(f"wrote {path}"), soft_wrap=True)

    def _inspect(self) -> "InspectResult":
        """Load the saved trace, or trace the sentence."""
        from dragoman.cli.inspect_output import InspectResult

        if self.trace is not None:
            from dragoman.inspection.trace import Trace

            return InspectResult(Trace.load(self.trace))
        bundle = open_model(self.model or "demo", self.to)
        if find_spec("torch") is None:
            return self._inspect_export(bundle)
        from dragoman.inspection.inspector import Inspector  # imports torch, which takes seconds: after all checks
        from dragoman.inspection.intervene import counterfactual

        inspector, (text,) = Inspector.of(bundle, self.beam, self.device), self.sentence or []
        changes = inspector.interventions(self.without, self.uniform)
        prefix = self.prefix or ""
        has_history = self.history or (self.html is not None and self.target is None)  # the page replays the search
        plain = inspector.trace(text, self.target, prefix=prefix, history=has_history)
        count = counterfactual(inspector.model, plain).text if self.counterfactual else None
        if not changes:
            return InspectResult(plain, counterfactual=count)
        changed = inspector.trace(text, self.target, prefix=prefix, interventions=changes, history=has_history)
        return InspectResult(changed, plain, count)

    def _inspect_export(self, bundle: "Bundle") -> "InspectResult":
        """Trace the alignment head alone, which needs no torch."""
        from dragoman.cli.inspect_output import InspectResult
        from dragoman.inspection.export_trace import trace_export

        why = "without torch only the alignment head can be shown (pip install 'dragoman[train]' for the others)"
        self._refuse(
            why, "kind", "layer", "head", "measure", "heads", "prefix", "without", "uniform", "counterfactual",
            "history",
        )  # fmt: skip
        (text,) = self.sentence or []
        return InspectResult(trace_export(bundle, text, self.target, self.beam))

    def _choose_map(self, trace: "Trace") -> "MapChoice":
        from dragoman.inspection.view import choose

        kind, rows = cast("Kind", self.kind or "cross"), cast("Rows | None", self.rows)
        head = int(self.head) if self.head and self.head.isdecimal() else cast("Literal['mean'] | None", self.head)
        choice = choose(trace, kind, self.layer, head, rows, cast("Measure | None", self.measure))
        return replace(choice, by_word=self.words, hide_sinks=self.hide_sinks)

    def _refuse(self, why: str, *names: str) -> None:
        values = {name: getattr(self, name) for name in names}  # 0 is a layer, and no flag that was left out
        given = [name for name, value in values.items() if value is not None and value is not False and value != []]
        if given:
            which = "the sentence" if given[0] == "sentence" else f"--{given[0].replace('_', '-')}"
            raise ValueError(f"{why}: leave out {which}")


inspect = command_of("inspect", InspectRequest)


def _check_sentence(sentence: list[str]) -> None:
    if not sentence:
        raise ValueError("no sentence: give text, as in dragoman inspect 'A sentence.', or a trace with --trace FILE")
    if len(sentence) > 1:
        is_model = _is_path(sentence[0], Path.is_dir)
        remedy = f"give the model with --model {sentence[0]}" if is_model else "put the sentence in quotes"
        raise ValueError(f"more than one sentence: {remedy}")
    (text,) = sentence
    if not text.strip():
        raise ValueError("the sentence is empty: give some text")
    if _is_path(text, Path.is_file):
        remedy = f"to show a trace, give --trace {text}" if text.endswith(".trace") else "give a sentence from the file"
        raise ValueError(f"{text} is a file, not a sentence: {remedy}")


def _is_path(text: str, kind: Callable[[Path], bool]) -> bool:
    """Return True if a text is a path that `kind`, such as `Path.is_dir`, accepts.

    Text too long for a file name is never a path.
    """
    return len(text.encode(errors="surrogateescape")) < 256 and kind(Path(text))
