"""`dragoman train`: from a recipe, or from two text files and nothing else, to a model."""

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.asked import Asked, Changes, Processes, RecipeFiles, Sources, Targets
from dragoman.cli.train_end import finished, stopped

if TYPE_CHECKING:
    from dragoman.experiment.autopilot import Plan


def train(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the run and its model go.")],
    recipe: RecipeFiles = None,
    set_: Changes = None,
    source: Sources = None,
    target: Targets = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long it may take, such as 45m, 2h or 1h30m (s, m, h, d). Without a recipe: 60m."
        ),
    ] = None,
    processes: Processes = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write for TensorBoard too.")] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Go on with a run although its recipe is no longer the one it began with.")
    ] = False,
    recipe_only: Annotated[
        bool, typer.Option("--recipe-only", help="Write FOLDER/recipe.yaml, to look at or to edit, and stop.")
    ] = False,
) -> None:
    """Train a model and leave it as a bundle in FOLDER/bundle.

    Give a recipe, or --source and --target alone: then the size of the data and --time decide the rest, and each
    choice is printed with its reason. FOLDER keeps the recipe, the log (log.jsonl) and the curves (curves.png).

    Whatever ended a training, the same command goes on from its last checkpoint, and comes to the same model. SIGTERM
    saves one and ends (exit code 143), SIGUSR1 saves one and goes on.

        dragoman train --source a.en --target a.de --out run/

        dragoman train recipe.yaml --out run/
    """
    from dragoman.cli.asked import the_recipe
    from dragoman.cli.train_begin import is_done
    from dragoman.cli.train_company import train_in_company

    given = the_recipe("train", recipe or [])
    asked = Asked("train", given, set_ or [], source or [], target or [], time, out.absolute().name)
    if "RANK" in os.environ:
        train_in_company(asked, out, tensorboard, changed)
    elif recipe_only:
        _keep(_planned(asked, out, changed), out)
    elif is_done(asked, out):
        print(f"finished already: {finished(out)}")
    else:
        _until_ended(asked, _planned(asked, out, changed), out, processes, tensorboard, changed)


def _planned(asked: Asked, out: Path, changed: bool) -> "Plan":
    """The recipe, its choices shown, if the folder can take its run."""
    from rich.console import Console

    from dragoman.cli.asked import begun, planned
    from dragoman.cli.progress import shown
    from dragoman.cli.train_begin import explain
    from dragoman.experiment.lock import refuse_running
    from dragoman.experiment.preflight import of_folder, refuse

    refuse([of_folder(out)])
    refuse_running(out)
    with shown() as progress:
        plan = begun(asked, out, changed) or planned(asked, progress)
    explain(plan, Console(highlight=False, markup=False))
    return plan


def _until_ended(
    asked: Asked, plan: "Plan", out: Path, processes: int | None, tensorboard: bool, changed: bool
) -> None:
    """Train, and say where the model is; or, whatever ended it before its time, how far it came."""
    from rich.console import Console

    from dragoman.training.wishes import TERMINATED, Terminated

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # while training, it is heard otherwise
    try:
        _carry_out(asked, plan, out, processes, tensorboard, changed)
    except (KeyboardInterrupt, Terminated, SystemExit) as error:
        errors = Console(stderr=True, highlight=False, markup=False)
        errors.show_cursor()  # a process that was showing how far it is may have left it hidden
        errors.print(stopped(out), soft_wrap=True)
        raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else TERMINATED) from None
    print(finished(out))


def _keep(plan: "Plan", folder: Path) -> None:
    from dragoman.experiment.lock import refuse_running
    from dragoman.experiment.recipe import dump_recipe

    refuse_running(folder)  # again: choosing takes a while
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(dump_recipe(plan.recipe), encoding="utf-8")
    print(f"edit {recipe}, and then: {shlex.join(['dragoman', 'train', str(recipe), '--out', str(folder)])}")


def _carry_out(asked: Asked, plan: "Plan", out: Path, processes: int | None, tensorboard: bool, changed: bool) -> None:
    """Prepare and train; whatever would stop it later is refused first."""
    from dragoman.cli.display import display
    from dragoman.cli.train_begin import prepare_run
    from dragoman.experiment.launch import launch, num_processes
    from dragoman.experiment.lock import alone_in
    from dragoman.experiment.machine import this_machine
    from dragoman.experiment.preflight import Order, preflight, refuse
    from dragoman.experiment.run import carry_out, typed
    from dragoman.training.parallel import Group

    count = num_processes(processes, plan.recipe.training.batches_per_update)
    refuse(preflight(Order(plan.recipe, out, count, tensorboard), this_machine()))
    command = typed(sys.argv[1:])
    with alone_in(out):
        prepare_run(asked, plan, out, changed)
        if count == 1:
            with display() as tell:
                carry_out(out, Group(), tell, command, tensorboard)
        else:
            launch(out, count, command, tensorboard)
