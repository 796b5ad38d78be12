"""How a training is begun: the choices shown, the folder made, the text prepared."""

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.asked import Asked

if TYPE_CHECKING:
    from dragoman.experiment.autopilot import Plan
    from dragoman.experiment.material import Material
    from dragoman.experiment.recipe import Recipe


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


def is_done(asked: Asked, out: Path) -> bool:
    """Whether this very run is finished: then there is nothing to do. ValueError, if what is finished is another."""
    from dragoman.cli.asked import planned
    from dragoman.cli.progress import shown
    from dragoman.experiment.again import ASKED, refuse_asked, refuse_unlike
    from dragoman.experiment.preflight import is_finished
    from dragoman.experiment.recipe import load_recipe, with_whole_paths

    chosen = asked.recipe is None
    if not is_finished(out) or not (out / (ASKED if chosen else "recipe.yaml")).is_file():
        return False
    if chosen:
        refuse_asked(out, asked.kept, f"{out} holds a finished model: give another --out")
    else:
        with shown() as progress:
            refuse_unlike(load_recipe(out / "recipe.yaml"), with_whole_paths(planned(asked, progress).recipe), out)
    return True


def prepare_run(asked: Asked, plan: "Plan", out: Path, changed: bool) -> None:
    """Make the folder of the run, or see that it may go on; and prepare its text, if that is not done."""
    from dragoman.cli.progress import shown
    from dragoman.experiment.again import remember_asked
    from dragoman.experiment.begin import begin
    from dragoman.experiment.material import Material

    with shown() as progress:
        recipe = begin(plan.recipe, out, progress=progress, changed=changed)
    if asked.recipe is None:
        remember_asked(out, asked.kept)
    material = Material.open(out)
    if not _is_ours(plan.recipe, out):
        _tell_left_out(material)
    _tell_arrivals(recipe, material)


def _is_ours(recipe: "Recipe", out: Path) -> bool:
    """Whether all that is held out was split off the training text by ourselves, now or when the run was begun."""
    dev = recipe.data.dev
    return not recipe.data.test and (dev is None or Path(dev.source).is_relative_to(out.absolute()))


def _tell_left_out(material: "Material") -> None:
    """How many pairs held-out files took from the training."""
    from rich.console import Console

    from dragoman.data.prepare import load_reports
    from dragoman.data.problem import Problem

    reports = [report for part in material.folders for report in load_reports(part.folder).values()]
    if left_out := sum(report.counts.get(Problem.LEAK, {}).get("drop", 0) for report in reports):
        told = f"{left_out:,} training pair{'s' * (left_out > 1)} left out: also held out for validation or test"
        Console(highlight=False).print(told, soft_wrap=True)


def _tell_arrivals(recipe: "Recipe", material: "Material") -> None:
    """From when on the corpora that joined the run are read."""
    from rich.console import Console

    for name, update in material.arrivals(recipe):
        told = f"{name} joined this run: read from update {update:,} on, when the epoch before it is over"
        if update > recipe.training.stop.updates:
            told += f"; training ends before that, with update {recipe.training.stop.updates:,} (training.stop.updates)"
        Console(highlight=False).print(told, soft_wrap=True)
