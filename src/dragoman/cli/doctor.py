"""`dragoman doctor`: what would go wrong, before anything is begun."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dragoman.cli.asked import Changes, Processes, RecipeFiles, Sources, Targets

if TYPE_CHECKING:
    from dragoman.cli.asked import Asked
    from dragoman.data.progress import Progress
    from dragoman.experiment.preflight import Finding

_STYLES: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(
    recipe: RecipeFiles = None,
    set_: Changes = None,
    source: Sources = None,
    target: Targets = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long training may take, such as 45m, 2h or 1h30m.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the run would go.")] = None,
    processes: Processes = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Whether TensorBoard will be asked for.")] = False,
) -> None:
    """Check data, recipe and machine before training.

    Takes what `dragoman train` takes; with nothing, it looks at the machine alone. One line for each look: ok, warning,
    or problem, with the mend. The exit code is 2 if there is a problem. Nothing is written.
    """
    from rich.console import Console
    from rich.text import Text

    from dragoman.cli.asked import Asked, the_recipe
    from dragoman.cli.progress import shown

    name = out.absolute().name if out else "run"
    asked = Asked("doctor", the_recipe("doctor", recipe or []), set_ or [], source or [], target or [], time, name)
    with shown() as progress:
        findings = _findings(asked, out, processes, tensorboard, progress)
    console = Console(highlight=False)
    for finding in findings:
        style = _STYLES[finding.level]
        line = Text.assemble((f"{finding.level:<9}", style), f"{finding.check:<12}", finding.message)
        console.print(line, soft_wrap=True)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(2)


def _findings(
    asked: "Asked", out: Path | None, processes: int | None, tensorboard: bool, progress: "Progress"
) -> list["Finding"]:
    from dragoman.cli.asked import planned
    from dragoman.experiment.doctor import examine, of_machine
    from dragoman.experiment.launch import num_processes
    from dragoman.experiment.machine import this_machine
    from dragoman.experiment.preflight import Finding, Order, of_folder
    from dragoman.experiment.speed import measured

    progress("try how fast this machine is", 0, None)
    machine = measured(this_machine())
    if asked.recipe is None and not asked.source and not asked.target:
        return [*of_machine(machine), *([of_folder(out)] if out else [])]
    try:
        plan = planned(asked, progress, machine)
    except ValueError as error:
        wrong = [Finding("recipe", "problem", line) for line in str(error).split("\n")]
        return [*of_machine(machine), *([of_folder(out)] if out else []), *wrong]
    order = Order(plan.recipe, out, num_processes(processes, plan.recipe.training.batches_per_update), tensorboard)
    return [Finding("recipe", "ok", f"{plan.recipe.name}: nothing wrong in it"), *examine(order, machine, progress)]
