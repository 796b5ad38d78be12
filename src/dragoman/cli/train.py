"""`dragoman train`: train a model from a recipe, or from parallel text alone."""

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Exit, Option

from dragoman.cli.command import (
    PAIRS_HELP,
    DeviceOption,
    FieldsOption,
    ToOption,
    complete_model,
    complete_path,
    out_option,
)
from dragoman.cli.verbosity import is_quiet
from dragoman.device import AUTO, check_device


def complete_recipe(incomplete: str) -> list[str]:
    """Return the names that a shell offers for a recipe: built-in recipes, YAML files and folders."""
    from dragoman.recipes.catalog import recipe_names

    return [*recipe_names(), *complete_path(incomplete, (".yaml", ".yml"))]


RecipeFiles = Annotated[
    list[Path] | None,
    Argument(metavar="RECIPE", help="Recipe file or name of a built-in recipe.", autocompletion=complete_recipe),
]
"""At most one recipe; the type is a list so that the error for several arguments can name the right options."""

Overrides = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a recipe key (repeatable).")]
Sources = Annotated[list[str] | None, Option(metavar="FILE", help="Source text, one sentence per line (repeatable).")]
Targets = Annotated[list[str] | None, Option(metavar="FILE", help="Translations of --source (repeatable).")]
Pairs = Annotated[list[str] | None, Option(metavar="FILE", help=f"{PAIRS_HELP} (repeatable).")]
From = Annotated[
    str | None,
    Option("--from", metavar="MODEL", help="Begin with a trained model, or `demo`.", autocompletion=complete_model),
]


def _check_keep(files: tuple[str, str] | None) -> tuple[str, str] | None:
    """Raise BadParameter if an option was taken for the second file."""
    if files and files[1].startswith("-"):
        raise BadParameter("give two files, SOURCE TARGET, or --keep-source TEXT")
    return files


Keep = Annotated[
    tuple[str, str] | None,
    Option(metavar="SOURCE TARGET", callback=_check_keep, help="Old pairs to mix in, against forgetting by --from."),
]
KeepSource = Annotated[
    str | None, Option(metavar="FILE", help="Old source text instead of --keep: the model of --from translates it.")
]
Time = Annotated[str | None, Option(metavar="TIME", help="Time limit, such as 1h30m; default without a recipe: 60m.")]
Processes = Annotated[
    int | None, Option(min=1, metavar="N", help="Training processes; default: up to one per GPU or core.")
]
Timeout = Annotated[
    str, Option(metavar="TIME", help="Restart all processes when one has waited so long for another; default: 10m.")
]
TensorBoard = Annotated[bool, Option("--tensorboard", help="Also write logs for TensorBoard.")]
Studio = Annotated[bool, Option("--studio", help="Open a page that shows the training while it runs.")]


def train(
    out: Annotated[Path, out_option("Folder for the training run and the model.")],
    recipe: RecipeFiles = None,
    set_: Overrides = None,
    source: Sources = None,
    target: Targets = None,
    pairs: Pairs = None,
    fields: FieldsOption = None,
    from_: From = None,
    keep: Keep = None,
    keep_source: KeepSource = None,
    to: ToOption = None,
    time: Time = None,
    processes: Processes = None,
    timeout: Timeout = "10m",
    device: DeviceOption = AUTO,
    tensorboard: TensorBoard = False,
    studio: Studio = False,
    changed: Annotated[bool, Option("--changed", help="Resume the run even if the recipe has changed.")] = False,
    recipe_only: Annotated[bool, Option("--recipe-only", help="Write DIR/recipe.yaml for editing, and stop.")] = False,
) -> None:
    """Train a model and write it to DIR/bundle.

    Give a recipe, or only text: --source and --target, or --pairs. Without a recipe, the settings follow from the size
    of the data and --time, and each setting is printed with its reason. DIR contains the recipe, the log (log.jsonl)
    and the curves (curves.png).

    If training ends early for any reason, the same command resumes from the last checkpoint and produces the same
    model. Ctrl-C and SIGTERM save a checkpoint first (exit codes 130 and 143); SIGUSR1 saves a checkpoint and
    continues. Until training is finished, `dragoman translate DIR` uses the best weights so far.

    With --from, training begins with the weights, vocabulary and shape of a trained model. The end compares both on
    held-out pairs: new pairs and, with --keep, old pairs.

    --studio opens a page with curves, samples and attention over time. It ends with the training; `dragoman studio DIR`
    opens the same page at any time.

    On several machines with a shared folder: torchrun ... -m dragoman train recipe.yaml --out run/

        dragoman train --source a.en --target a.de --out run/

        dragoman train --pairs memory.tmx --out run/ --time 45m

        dragoman train recipe.yaml --out run/ --set training.stop.updates=2000

        dragoman train --from demo --source a.en --target a.de --keep old.en old.de --out run/ --time 30m
    """
    from dragoman.cli.studio_beside import StudioBeside
    from dragoman.cli.train_display import TrainingDisplay
    from dragoman.experiment.request import TrainRequest
    from dragoman.experiment.run_training import run_training, write_recipe
    from dragoman.training.signals import TERMINATED, Terminated

    check_device(device, "--device")
    request = TrainRequest(
        out=out,
        recipe=single_recipe("train", recipe or []),
        overrides=tuple(set_ or ()),
        source=tuple(source or ()),
        target=tuple(target or ()),
        pairs=tuple(pairs or ()),
        fields=fields,
        init=from_,
        keep=keep,
        keep_source=keep_source,
        to=to,
        time=time,
        processes=processes,
        timeout=timeout,
        device=device,
        tensorboard=tensorboard,
        allow_changes=changed,
        command=shlex.join(["dragoman", *sys.argv[1:]]),
    )
    with TrainingDisplay(is_quiet()) as display:
        if recipe_only:
            path = write_recipe(request, display.progress, display)
            print(f"edit {path}, and then: {shlex.join(['dragoman', 'train', str(path), '--out', str(out)])}")
            return
        try:
            with StudioBeside(out, display) if studio else nullcontext(display) as on_event:
                run_training(request, progress=display.progress, on_event=on_event)
        except KeyboardInterrupt:
            raise Exit(130) from None
        except Terminated:
            raise Exit(TERMINATED) from None


def single_recipe(command: str, paths: list[Path]) -> Path | None:
    """Return the recipe argument, or None; raise ValueError for several arguments."""
    if len(paths) < 2:
        return next(iter(paths), None)
    names = " and ".join(path.name for path in paths)
    if any(path.suffix in (".yaml", ".yml") for path in paths):
        raise ValueError(f"several arguments ({names}): give one recipe, or text with --source and --target")
    example = f"dragoman {command} --source {paths[0]} --target {paths[1]}"
    raise ValueError(f"{names} are not recipes: give text with --source and --target:\n  {example}")
