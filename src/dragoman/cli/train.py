"""`dragoman train`: from a recipe, or from two text files and nothing else, to a model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.asked import Changes, Processes, RecipeFile, Sources, Targets

if TYPE_CHECKING:
    from dragoman.experiment.autopilot import Plan


def train(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the run and its model go.")],
    recipe: RecipeFile = None,
    set_: Changes = None,
    source: Sources = None,
    target: Targets = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it may take: 45m, 2h; without a recipe, else 60m.")
    ] = None,
    processes: Processes = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write for TensorBoard too.")] = False,
    recipe_only: Annotated[
        bool, typer.Option("--recipe-only", help="Write FOLDER/recipe.yaml, to look at or to edit, and stop.")
    ] = False,
) -> None:
    """Train a model and leave it as a bundle in FOLDER/bundle.

    Give a recipe, or --source and --target alone: then the size of the data and --time decide the rest, and each
    choice is printed with its reason. FOLDER keeps the recipe, the log (log.jsonl) and the curves (curves.png).

        dragoman train --source a.en --target a.de --out run/

        dragoman train recipe.yaml --out run/
    """
    from rich.console import Console

    from dragoman.cli.asked import Asked, planned
    from dragoman.cli.progress import shown
    from dragoman.experiment.preflight import of_folder, refuse

    refuse([of_folder(out)])
    asked = Asked("train", recipe, set_ or [], source or [], target or [], time, out.absolute().name)
    with shown() as progress:
        plan = planned(asked, progress)
    console = Console(highlight=False)
    explain(plan, console)
    if recipe_only:
        _keep(plan, out)
        console.print(f"edit {out / 'recipe.yaml'}, and then: dragoman train {out / 'recipe.yaml'} --out {out}")
        return
    _carry_out(plan, out, processes, tensorboard)
    console.print(f"the model is in {out / 'bundle'}, its curves in {out / 'curves.png'}", soft_wrap=True)
    console.print(f"try it: dragoman translate {out} 'A text.'", soft_wrap=True)


def explain(plan: "Plan", console: object) -> None:
    """The choices as a table, and what to expect of them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    assert isinstance(console, Console)
    if plan.choices:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for what, value, reason in plan.choices:
            table.add_row(what, Text.assemble((value, "bold"), f": {reason}"))
        console.print(table)
    for warning in plan.warnings:
        console.print(Text(f"note: {warning}", style="yellow"))


def _keep(plan: "Plan", folder: Path) -> None:
    from dragoman.experiment.recipe import dump_recipe

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(dump_recipe(plan.recipe), encoding="utf-8")


def _carry_out(plan: "Plan", out: Path, processes: int | None, tensorboard: bool) -> None:
    """Prepare and train; whatever would stop it later is refused first."""
    from dragoman.cli.display import display
    from dragoman.cli.progress import shown
    from dragoman.experiment.launch import launch, num_processes
    from dragoman.experiment.machine import this_machine
    from dragoman.experiment.preflight import Order, preflight, refuse
    from dragoman.experiment.run import begin, carry_out, typed
    from dragoman.training.parallel import Group

    count = num_processes(processes, plan.recipe.training.batches_per_update)
    refuse(preflight(Order(plan.recipe, out, count, tensorboard), this_machine()))
    with shown() as progress:
        begin(plan.recipe, out, progress=progress)
    command = typed(sys.argv[1:])
    if count == 1:
        with display() as tell:
            carry_out(out, Group(), tell, command, tensorboard)
    else:
        launch(out, count, command, tensorboard)
