"""What `train` and `doctor` are asked for: a recipe, or text files of which the rest is made."""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

if TYPE_CHECKING:
    from dragoman.data.progress import Progress
    from dragoman.experiment.autopilot import Plan
    from dragoman.experiment.machine import Machine

RecipeFiles = Annotated[list[Path] | None, typer.Argument(metavar="RECIPE", help="A recipe (YAML).")]
"""One, or none. More are taken too, to say what is meant instead."""

Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe.")]
Sources = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Without a recipe: source text, or both sides in one file.")
]
Targets = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Target text, line by line.")]
Processes = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Processes to train in; else one for each core, if possible.")
]

_YAML: Final = (".yaml", ".yml")

USAGE: Final = """give a recipe, or two text files:
  dragoman {command} recipe.yaml --out run/
  dragoman {command} --source a.en --target a.de --out run/"""


class Asked(NamedTuple):
    """The options that both commands share, as they were typed."""

    command: str
    recipe: Path | None
    changes: list[str]
    source: list[str]
    target: list[str]
    time: str | None
    name: str
    """Of the run: the last part of its folder."""

    @property
    def kept(self) -> dict[str, object]:
        """What decides how the run goes, to be compared when the same is asked for again, perhaps from elsewhere."""
        source, target = (
            [path if "://" in path else str(Path(path).absolute()) for path in side]
            for side in (self.source, self.target)
        )
        return {"source": source, "target": target, "time": self.time, "set": self.changes}


def the_recipe(command: str, paths: list[Path]) -> Path | None:
    """The one that was given, if any was."""
    if len(paths) < 2:
        return next(iter(paths), None)
    names = " and ".join(path.name for path in paths)
    if any(path.suffix in _YAML for path in paths):
        raise ValueError(f"one recipe at a time, not {names}; text is given with --source and --target")
    mend = f"dragoman {command} --source {paths[0]} --target {paths[1]}"
    raise ValueError(f"are {names} text to train on? That is given with --source and --target:\n  {mend}")


def planned(asked: Asked, progress: "Progress", machine: "Machine | None" = None) -> "Plan":
    """The recipe as it is to be run, with the choices that were made for it, if any were.

    They follow from the machine, too: if none is given, from this one, whose speed is then tried.
    """
    from dragoman.experiment.autopilot import Plan
    from dragoman.experiment.recipe import load_recipe
    from dragoman.training.config import seconds

    files = [*asked.source, *asked.target]
    if asked.recipe is not None and files:
        raise ValueError(f"{asked.recipe} says what to train on: leave out --source and --target, or the recipe")
    if asked.recipe is None and not files:
        raise ValueError(USAGE.format(command=asked.command))
    if asked.time is not None:
        try:
            seconds(asked.time)
        except ValueError as error:
            raise ValueError(f"--time: {error}") from error
    if asked.recipe is None:
        return _chosen(asked, progress, machine)
    _refuse_what_is_no_recipe(asked.recipe)
    time = [f"training.stop.time={asked.time}"] if asked.time else []
    try:
        return Plan(load_recipe(asked.recipe, [*asked.changes, *time]), (), ())
    except ValueError as error:
        if asked.recipe.suffix in _YAML:
            raise
        mend = f"is {asked.recipe.name} text to train on? That is given with --source and --target"
        raise ValueError(f"{error}\n{mend}") from error


def begun(asked: Asked, folder: Path, changed: bool) -> "Plan | None":
    """The recipe that was chosen when this run was begun, if the same is asked for again; None if there is no such run.

    What a run chooses follows from the clock and the machine, too: choosing again would be another run.
    """
    from dragoman.experiment.again import ASKED, refuse_asked, refuse_other_text
    from dragoman.experiment.autopilot import Plan
    from dragoman.experiment.preflight import is_under_way
    from dragoman.experiment.recipe import changed as with_changes
    from dragoman.experiment.recipe import load_recipe

    if asked.recipe is not None or not (folder / ASKED).is_file() or not is_under_way(folder):
        return None
    kept = load_recipe(folder / "recipe.yaml")
    if not changed:
        refuse_asked(folder, asked.kept)
        return Plan(kept, (), ())
    refuse_other_text(folder, asked.kept)
    time = [f"training.stop.time={asked.time}"] if asked.time else []
    return Plan(with_changes(kept, [*asked.changes, *time]), (), ())


def _chosen(asked: Asked, progress: "Progress", machine: "Machine | None") -> "Plan":
    from dragoman.cli.corpora import corpora_of
    from dragoman.experiment.autopilot import autopilot, check_changes
    from dragoman.experiment.machine import this_machine
    from dragoman.experiment.preflight import of_corpus, refuse
    from dragoman.experiment.reasons import Choice
    from dragoman.experiment.recipe import changed
    from dragoman.experiment.speed import measured
    from dragoman.training.config import seconds

    corpora = corpora_of("train", asked.source, asked.target)
    refuse(of_corpus(corpus) for corpus in corpora)
    if asked.changes:
        check_changes(corpora, asked.name, asked.changes)
    if machine is None:
        progress("try how fast this machine is", 0, None)
        machine = measured(this_machine())
    plan = autopilot(corpora, asked.name, seconds(asked.time or "60m"), machine, progress)
    if not asked.changes:
        return plan
    said = [Choice("--set", change, "as you say, whatever stands above") for change in asked.changes]
    return plan._replace(recipe=changed(plan.recipe, asked.changes), choices=(*plan.choices, *said))


def _refuse_what_is_no_recipe(path: Path) -> None:
    if path.is_dir():
        inside = path / "recipe.yaml"
        mend = f"did you mean {inside}?" if inside.is_file() else "name the recipe inside it"
        raise ValueError(f"{path} is a folder: {mend}")
    if not path.exists():
        names = [other.name for other in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        near = get_close_matches(path.name, names, n=1, cutoff=0.75)
        mend = (
            f"did you mean {path.parent / near[0]}?" if near else "dragoman example dates d/ writes one to begin with"
        )
        raise ValueError(f"{path}: there is no such recipe; {mend}")
