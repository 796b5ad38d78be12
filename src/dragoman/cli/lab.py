"""`dragoman lab`: list and run experiments that measure what textbooks claim, and report their verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.command import DragomanCommand, DragomanGroup, check_name, option, out_option, output_option
from dragoman.cli.output_files import check_output_file
from dragoman.cli.verbosity import print_note, with_verbosity

if TYPE_CHECKING:
    from dragoman.lab.run_experiment import ExperimentResult

_DEFAULT_OUT = Path("lab")

app = typer.Typer(cls=DragomanGroup, invoke_without_command=True, rich_markup_mode="markdown")


def _experiment_names() -> list[str]:
    from dragoman.lab.run_experiment import experiment_names

    return [*experiment_names(), "all"]


@app.callback()
def lab(context: typer.Context) -> None:
    """List, run and report experiments that measure what textbooks claim.

    Without a command, list all experiments with their claims. Each experiment has a claim with its source, a
    prediction, a measurement over several seeds, and a rule that turns the numbers into a verdict: the claim holds,
    fails as told, or depends.

        dragoman lab

        dragoman lab run square-root --seeds 3

        dragoman lab report lab/ --output verdicts.md
    """
    if context.invoked_subcommand is not None:
        return
    from textwrap import fill

    from dragoman.lab.run_experiment import experiment_names, load_experiment

    for name in experiment_names():
        experiment = load_experiment(name)
        text = f"{experiment.claim} ({experiment.source})"
        print(f"{name}\n{fill(text, 96, initial_indent='  ', subsequent_indent='  ')}")


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Experiment, or `all`.", autocompletion=_experiment_names)
    ],
    seeds: Annotated[int, option("N", "Seeds to measure; a verdict needs two or more.", least=1)] = 3,
    time: Annotated[
        str | None, option("TIME", "Begin no seed that would end later, as in 5m; the next call goes on.")
    ] = None,
    out: Annotated[Path, out_option("Folder of the results; each experiment has a folder in it.")] = _DEFAULT_OUT,
    smallest: Annotated[
        bool, option(None, "Measure the smallest size, in seconds, only to try the code.", "--smallest")
    ] = False,
) -> None:
    """Run an experiment and write its numbers, a picture and a page.

    A finished seed is not run again, unless the code of the experiment has changed. All data are generated from the
    seed; some experiments translate with the built-in model.

        dragoman lab run square-root

        dragoman lab run all --seeds 5 --time 10m --out results/
    """
    from dragoman.training.config import parse_duration

    names = _experiment_names()
    check_name("experiment", name, names)
    seconds = None if time is None else parse_duration(time)
    for each in names[:-1] if name == "all" else [name]:
        _run_one(each, out, seeds, seconds, smallest)


def _run_one(name: str, out: Path, seeds: int, seconds: float | None, smallest: bool) -> None:
    from dragoman.cli.progress import show_progress
    from dragoman.lab.result_page import PAGE_FILE, write_page
    from dragoman.lab.run_experiment import run_experiment

    with show_progress() as progress:
        result = run_experiment(name, out, seeds, seconds, smallest, progress)
    write_page(result, out / name)
    _print(result, out / name / PAGE_FILE)
    if len(result.seeds) < seeds:
        print_note(f"note: the time was enough for {len(result.seeds)} of {seeds} seeds; the same command goes on")


def _print(result: "ExperimentResult", page: Path) -> None:
    from dragoman.lab.result_page import format_number
    from dragoman.lab.run_experiment import load_experiment

    print(f"{result.name}: {result.verdict}")
    for name, text in load_experiment(result.name).numbers.items():
        interval = result.intervals.get(name)
        if interval is None:
            print(f"  {format_number(result.seeds[0].measurement.numbers[name]):>10}  {text}")
        else:
            low, high = format_number(interval.low), format_number(interval.high)
            print(f"  {format_number(interval.mean):>10}  {text} ({low} to {high})")
    print(f"  {page}")


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results, as --out of `lab run`.")],
    output: Annotated[Path | None, output_option("Write a page about all results as .md, with pictures.")] = None,
) -> None:
    """Show the verdicts of all results in a folder, and write one page about them.

    The page has the claim, the rule, the numbers, a picture and the verdict of each experiment. Its pictures and
    numbers are in a folder with the name of the page, from which the report can be written again.

        dragoman lab report lab/

        dragoman lab report lab/ --output verdicts.md
    """
    if output is not None:
        check_output_file("--output", output, (".md",))
    from dragoman.lab.result_page import write_report
    from dragoman.lab.run_experiment import read_results

    results = read_results(folder)
    for result in results:
        print(f"{result.verdict:<14} {result.name} ({len(result.seeds)} seeds)")
    if output is not None:
        write_report(results, output)


app.command("run", cls=DragomanCommand)(with_verbosity(run, True))
app.command("report", cls=DragomanCommand)(with_verbosity(report, False))
