"""`dragoman inspect`: where a model looked when it translated a sentence, on the terminal and in files."""

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli import inspect_options as opt

if TYPE_CHECKING:
    from dragoman.cli.inspect_asked import Look, Seen


def inspect(
    sentence: opt.Sentence = None,
    model: opt.Model = None,
    trace: opt.TraceFile = None,
    target: opt.Target = None,
    beam: opt.Beam = None,
    kind: opt.Kind = None,
    layer: opt.Layer = None,
    head: opt.Head = None,
    rows: opt.Rows = None,
    measure: opt.Measure = None,
    words: opt.Words = False,
    hide_sinks: opt.HideSinks = False,
    heads: opt.Heads = False,
    without: opt.Without = None,
    uniform: opt.Uniform = None,
    counterfactual: opt.Counterfactual = False,
    svg: opt.SvgFile = None,
    png: opt.PngFile = None,
    pdf: opt.PdfFile = None,
    html: opt.HtmlFile = None,
    json: opt.JsonFile = None,
    csv: opt.CsvFile = None,
    moses: opt.MosesFile = None,
    save: opt.SaveFile = None,
    history: opt.History = False,
) -> None:
    """Show where a model looked when it translated a sentence.

    Where it looked is not why; the caption says what is measured. The map is of one layer and one head: if none is
    named, of the head that the model aligns by or, as a guess, of the second last layer's mean. HEADS are names such as
    encoder.layers.0, decoder.layers.1.cross_attention.2 (head 2 alone) or cross, with commas between. A file named - is
    standard output (json, csv, moses); all else then goes to standard error.

        dragoman inspect "A man sleeps on a bench."

        dragoman inspect "A man sleeps." --model run/ --layer 1 --head 2

        dragoman inspect "A man sleeps." --without cross.2 --html map.html
    """
    from dragoman.cli import inspect_files
    from dragoman.cli.inspect_asked import Look, Task

    made = {"svg": svg, "png": png, "pdf": pdf, "html": html, "json": json, "csv": csv, "moses": moses, "save": save}
    paths = {option: path for option, path in made.items() if path is not None}
    look = Look(kind, layer, head, rows, measure, words, hide_sinks, heads)
    task = Task(sentence or [], trace, model, target, beam, without, uniform, counterfactual, history, save)
    task.refuse()
    look.refuse()
    inspect_files.refuse(paths)

    _show(look, task.done(), paths)


def _show(look: "Look", seen: "Seen", paths: dict[str, Path]) -> None:
    """On the terminal, or beside what a program reads from standard output; then the files."""
    from rich.console import Console
    from rich.text import Text

    from dragoman.cli import inspect_files, inspect_report

    choice, habits = look.choice(seen.trace), look.habits(seen.trace)
    shown = choice.view(seen.trace)  # before anything is printed, for there may be no such head
    console = Console(stderr=inspect_files.STANDARD_OUTPUT in paths.values(), highlight=False, markup=False)
    inspect_report.show_texts(console, *seen)
    if habits is None:
        inspect_report.show_map(console, seen.trace, shown, choice.reason)
    else:
        inspect_report.show_heads(console, seen.trace, habits)
    for path in inspect_files.write(paths, seen, choice, habits):
        console.print(Text(f"wrote {path}"), soft_wrap=True)
