"""`dragoman doctor`: check data, recipe and machine before training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dragoman.cli.command import DeviceOption, FieldsOption, ToOption, out_option
from dragoman.cli.train import (
    From,
    Keep,
    KeepSource,
    Overrides,
    Pairs,
    Processes,
    RecipeFiles,
    Sources,
    Targets,
    TensorBoard,
    Time,
    single_recipe,
)
from dragoman.device import AUTO, check_device

if TYPE_CHECKING:
    from dragoman.experiment.findings import Finding

_STYLES: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def doctor(
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
    out: Annotated[Path | None, out_option("Check that DIR can hold a training run.")] = None,
    processes: Processes = None,
    device: DeviceOption = AUTO,
    tensorboard: TensorBoard = False,
) -> None:
    """Check data, recipe and machine before training.

    Accepts the inputs of dragoman train. Without a recipe or text, only the machine is checked. Prints one line per
    check: ok, a note, a warning, or a problem with a fix. The exit code is 2 if there is a problem. No file is written.
    Without the training packages, only the text of --source and --target is checked.

        dragoman doctor recipe.yaml --out run/

        dragoman doctor --source a.en --target a.de

        dragoman doctor --pairs memory.tmx
    """
    from dragoman.cli.progress import show_progress
    from dragoman.experiment.text_doctor import examine_text, find_missing_packages

    check_device(device, "--device")
    if find_missing_packages() and not (recipe or pairs or set_):
        with show_progress() as progress:
            _print_findings(list(examine_text(source or (), target or (), progress)))
        return
    from dragoman.experiment.doctor import examine
    from dragoman.experiment.request import TrainRequest

    request = TrainRequest(
        out=out or Path("run"),
        recipe=single_recipe("doctor", recipe or []),
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
        device=device,
        tensorboard=tensorboard,
    )
    with show_progress() as progress:
        findings = list(examine(request, out, progress))
    _print_findings(findings)


def _print_findings(findings: "list[Finding]") -> None:
    """Print one line per finding; exit with code 2 if there is a problem."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for finding in findings:
        line = Text.assemble((f"{finding.level:<9}", _STYLES[finding.level]), f"{finding.check:<12}", finding.message)
        console.print(line, soft_wrap=True)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(2)
