"""`dragoman evolve`: show how attention developed in a training run, from traces of dev sentences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dragoman.cli.command import check_map_options, json_option, option, output_option
from dragoman.cli.output_files import PICTURES, STDOUT, check_different, check_output_file, write_output

if TYPE_CHECKING:
    from rich.console import Console

    from dragoman.attention.kinds import Kind
    from dragoman.inspection.evolution import Evolution


def evolve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run, finished or still training.")],
    output: Annotated[Path | None, output_option("Plot attention over updates as .png, .svg or .pdf.")] = None,
    html: Annotated[Path | None, option("FILE", "Write a self-contained HTML page with a slider over time.")] = None,
    json: Annotated[Path | None, json_option("Write statistics per head as JSON")] = None,
    kind: Annotated[
        str | None,
        option("cross|encoder|decoder", "Kind of attention to show; default: cross, with the roles of all heads."),
    ] = None,
    sentence: Annotated[int, option("N", "Sentence whose maps are drawn, counted from 1.", least=1)] = 1,
    layer: Annotated[int | None, option("N", "Layer of the head to plot, from 0; default: best aligned head.")] = None,
    head: Annotated[int | None, option("N", "Head of --layer to plot, from 0; default: best aligned head.")] = None,
) -> None:
    """Show how a model's attention developed during training.

    A run traces a few dev sentences before its first update and at each validation (validation.probe in its recipe),
    always with the reference as the target. Each of these snapshots is printed as one line: the entropy of attention,
    the head that aligned best, and the number of heads in each role. `dragoman studio RUN` shows the same, with the
    curves of the run, and while it trains.

        dragoman evolve run/

        dragoman evolve run/ --output evolution.png --html evolution.html
    """
    check_map_options(kind)
    for name, path, suffixes in (("--output", output, PICTURES), ("--html", html, ()), ("--json", json, ())):
        if path is not None:
            check_output_file(name, path, suffixes)
    check_different(("--output", output), ("--html", html), ("--json", json))
    if (layer is None) != (head is None):
        raise ValueError("only one of --layer and --head is given: give both, or neither")
    from rich.console import Console

    from dragoman.cli.progress import show_progress
    from dragoman.inspection.evolution import read_evolution

    chosen = cast("Kind | None", kind)
    with show_progress() as progress:
        evolution = read_evolution(run, progress)
    evolution.heads(chosen)
    if sentence > len(evolution.sentences):
        raise ValueError(f"--sentence {sentence} does not exist: choose 1 to {len(evolution.sentences)}")
    shown_kind = chosen or evolution.kinds[0]
    history = None if layer is None or head is None else evolution.head(shown_kind, layer, head)
    if json:
        write_output(json, evolution.to_json())
    if html:
        from dragoman.inspection.evolution_file import evolution_page

        write_output(html, evolution_page(evolution, chosen, sentence - 1, history))
    if output:
        from dragoman.inspection import plots

        plots.save(plots.evolution(evolution, shown_kind, sentence - 1, history), output)
    _print(evolution, chosen, Console(stderr=json == STDOUT, highlight=False))


def _print(evolution: "Evolution", kind: "Kind | None", console: "Console") -> None:
    from dragoman.inspection.evolution import NUMBERS, legend, snapshot_rows, table
    from dragoman.inspection.view import CAVEAT, KINDS

    rows = snapshot_rows(evolution, kind)
    shown = rows[0].head.kind
    console.print(f"{KINDS[shown].capitalize()}; {evolution.about}.\n", markup=False)
    console.print(table(rows, ascii_only=console.options.ascii_only))
    console.print(f"\nEntropy is the mean of {len(evolution.heads(shown))} heads: 0 is a single token, 1 is uniform.")
    if shown == "cross":
        console.print(f"{NUMBERS['alignment'].capitalize()}, between {evolution.units}.")
    console.print(f"{legend(rows)} {CAVEAT}")
    if not (evolution.run / "bundle").is_dir():
        console.print("The run is still training, or was interrupted: this is its state so far.")
