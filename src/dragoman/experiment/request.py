"""The inputs of `dragoman train` and `dragoman doctor`, and the recipe they give. Does not import torch."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from dragoman.data.corpus import corpora_from_files
from dragoman.device import AUTO
from dragoman.experiment.autopilot import Plan, PlanChoice, autopilot, check_changes
from dragoman.experiment.finetune_plan import plan_finetuning
from dragoman.experiment.machine import Machine, measure_speed, this_machine
from dragoman.experiment.parent import open_parent
from dragoman.experiment.preflight import check_corpus, raise_problems
from dragoman.experiment.run_folder import check_same_request, check_same_text, is_same_request
from dragoman.experiment.run_state import RECIPE, REQUEST, has_checkpoint
from dragoman.io.progress import Progress
from dragoman.recipes.catalog import library_path, recipe_names
from dragoman.recipes.expansion import absolute_path, parent_path
from dragoman.recipes.recipe import InitSection, KeepSection, load_recipe, override_recipe
from dragoman.training.config import TIMEOUT, parse_duration

_YAML: Final = (".yaml", ".yml")

_USAGE: Final = """give a recipe, two text files, or a file of pairs:
  dragoman train recipe.yaml --out run/
  dragoman train --source a.en --target a.de --out run/
  dragoman train --pairs a.tmx --out run/"""


@dataclass(frozen=True)
class TrainRequest:
    """A training request: a recipe, or text files for which the autopilot chooses a recipe."""

    out: Path
    """The folder of the run."""
    recipe: Path | None = None
    """A recipe file, or the name of a recipe that comes with Dragoman."""
    overrides: tuple[str, ...] = ()
    """Overrides of recipe keys in the form KEY=VALUE, such as `training.stop.updates=500`."""
    source: tuple[str, ...] = ()
    """Training text instead of a recipe: source files, or files with source and target."""
    target: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    """Training text instead of a recipe: files of pairs, such as TMX or CSV."""
    fields: str | None = None
    """The columns, keys or languages of `pairs`, as in `en,de`."""
    init: str | None = None
    """The model to begin with instead of random weights: a model folder, a run folder, or `demo`."""
    keep: tuple[str, str] | None = None
    """Old source and target text to mix in, so that the model to begin with does not forget it."""
    keep_source: str | None = None
    """Old source text that the model to begin with translates, in place of `keep`."""
    to: str | None = None
    """The target language of the text, if the model to begin with translates into several."""
    time: str | None = None
    """The maximum training time, such as `45m`."""
    processes: int | None = None
    """The number of training processes; None: the largest divisor of `batches_per_update`, up to one
    per accelerator or core."""
    device: str = AUTO
    """The device to train on; no part of the recipe, which means the same batches everywhere."""
    timeout: str = TIMEOUT
    """The time that a training process waits for the others before all are restarted."""
    tensorboard: bool = False
    allow_changes: bool = False
    """Resume a run even if the recipe has changed."""
    command: str = ""
    """The command line, for the model card."""

    @property
    def name(self) -> str:
        """The name of the run: the last part of its folder."""
        return self.out.absolute().name

    @property
    def has_input(self) -> bool:
        """True if the request has a recipe or text files."""
        return bool(self.recipe) or self.has_text

    @property
    def has_text(self) -> bool:
        """True if the request has text files."""
        return bool(self.source or self.target or self.pairs)

    @property
    def choices(self) -> dict[str, object]:
        """The options that determine a run without a recipe; resuming compares the new options with the old."""
        source, target = ([absolute_path(path, Path()) for path in side] for side in (self.source, self.target))
        choices: dict[str, object] = {"source": source, "target": target}
        choices |= {"time": self.time, "set": list(self.overrides)}
        if self.pairs:  # left out otherwise, as in runs that began before there were files of pairs
            choices |= {"pairs": [absolute_path(path, Path()) for path in self.pairs], "fields": self.fields}
        if self.init:
            choices |= {"from": parent_path(self.init, Path()), "keep": [], "keep_source": None}
        if self.to:
            choices["to"] = self.to
        if self.keep:
            choices["keep"] = [absolute_path(path, Path()) for path in self.keep]
        if self.keep_source:
            choices["keep_source"] = absolute_path(self.keep_source, Path())
        return choices

    @property
    def init_section(self) -> InitSection | None:
        """The init section of the recipe; None if training begins with random weights."""
        if self.init is None:
            return None
        files = {"source": self.keep[0], "target": self.keep[1]} if self.keep else {"source": self.keep_source}
        keep = KeepSection.model_validate(files) if self.keep or self.keep_source else None
        return InitSection(bundle=parent_path(self.init, Path()), keep=keep)


def plan_training(request: TrainRequest, progress: Progress, machine: Machine | None = None) -> Plan:
    """Return the recipe to run and, for a request without a recipe, the choices of the autopilot.

    The choices depend on `machine`; by default, the speed of the current machine is measured.
    """
    if request.recipe and (request.has_text or request.fields):
        options = "--source and --target" if request.source or request.target else "--pairs and --fields"
        raise ValueError(f"{request.recipe} names the training text: leave out {options}, or the recipe")
    if not request.has_input:
        raise ValueError(_USAGE)
    _check_init(request)
    if request.time is not None:
        try:
            parse_duration(request.time)
        except ValueError as error:
            raise ValueError(f"--time: {error}") from error
    if request.recipe is None:
        return _plan_from_text(request, progress, machine)
    overrides = [*request.overrides, *_time_override(request)]
    if not request.recipe.exists() and str(request.recipe) in recipe_names():
        return Plan(load_recipe(library_path(str(request.recipe)), overrides, Path()))
    _check_recipe_path(request.recipe)
    try:
        return Plan(load_recipe(request.recipe, overrides))
    except ValueError as error:
        if request.recipe.suffix in _YAML:
            raise
        hint = f"if {request.recipe.name} is training text, give --source and --target, or --pairs"
        raise ValueError(f"{error}\n{hint}") from error


def _check_init(request: TrainRequest) -> None:
    """Raise ValueError for options of a training that begins with a trained model that do not fit together."""
    option = "--keep" if request.keep else "--keep-source" if request.keep_source else ""
    if request.keep and request.keep_source:
        raise ValueError("--keep and --keep-source are both old text: give only one of them")
    if request.recipe and (request.init or option):
        key = "init.bundle" if request.init else "init.keep"
        raise ValueError(
            f"{request.recipe} is a recipe: set {key} in it, and leave out {'--from' if request.init else option}"
        )
    if request.to and not request.init:
        raise ValueError(
            "--to is the target language of a trained model with several: add --from MODEL, or set target_language "
            "in a recipe"
        )
    if option and not request.init:
        raise ValueError(f"{option} keeps what a trained model knows: add --from MODEL, or leave out {option}")


def plan_resumed(request: TrainRequest) -> Plan | None:
    """Return the recipe that the autopilot chose for a stopped run; None if there is no run to resume.

    The autopilot measures the speed of the machine, so a second call could choose another recipe. Before the first
    checkpoint, other options are no change of a run: they get a new plan.
    """
    folder = request.out
    if request.recipe or not (folder / REQUEST).is_file() or not (folder / RECIPE).is_file():
        return None
    if not has_checkpoint(folder) and not is_same_request(folder, request.choices):
        return None
    kept = load_recipe(folder / RECIPE)
    if not request.allow_changes:
        check_same_request(folder, request.choices)
        return Plan(kept)
    check_same_text(folder, request.choices)
    return Plan(override_recipe(kept, [*request.overrides, *_time_override(request)]))


def _time_override(request: TrainRequest) -> list[str]:
    return [f"training.stop.time={request.time}"] if request.time else []


def _plan_from_text(request: TrainRequest, progress: Progress, machine: Machine | None) -> Plan:
    corpora = corpora_from_files("train", request.source, request.target, (), request.pairs, request.fields)
    raise_problems(check_corpus(corpus) for corpus in corpora)
    init = request.init_section
    parent = open_parent(init) if init else None
    if request.overrides and init is None:
        check_changes(corpora, request.name, request.overrides)
    if machine is None:
        progress("measure the speed of this machine", 0, None)
        machine = measure_speed(this_machine(request.device))
    seconds = parse_duration(request.time or "60m")
    if init and parent:
        plan = plan_finetuning(
            corpora, request.name, init, parent, seconds, machine, progress, request.processes, request.to
        )
    else:
        plan = autopilot(corpora, request.name, seconds, machine, progress, request.processes)
    if not request.overrides:
        return plan
    changes = tuple(PlanChoice("--set", key, "takes precedence over the choices above") for key in request.overrides)
    return plan._replace(recipe=override_recipe(plan.recipe, request.overrides), choices=plan.choices + changes)


def _check_recipe_path(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a recipe file, such as {path / RECIPE}")
    if not path.exists():
        files = [str(other) for other in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        near = get_close_matches(str(path), [*files, *recipe_names()], n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else "run dragoman recipes to list all recipes"
        raise ValueError(f"{path}: no such recipe; {hint}")
