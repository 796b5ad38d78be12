"""The entry point of training: check the request, prepare the data, train and write the bundle."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dragoman.bundle import CardScore, open_bundle
from dragoman.data.prepare import load_reports
from dragoman.experiment.autopilot import Plan
from dragoman.experiment.findings import Finding, save_findings
from dragoman.experiment.launchers import Launcher, default_launcher
from dragoman.experiment.line_alignment import alignment_warnings
from dragoman.experiment.log import EventCallback, ignore_event
from dragoman.experiment.machine import this_machine
from dragoman.experiment.preflight import RunSetup, check_folder, preflight, raise_problems
from dragoman.experiment.request import TrainRequest, plan_resumed, plan_training
from dragoman.experiment.run_folder import check_same_as_finished, check_same_request, describe_stop, save_plan
from dragoman.experiment.run_state import (
    BUNDLE,
    RECIPE,
    REQUEST,
    check_not_running,
    has_checkpoint,
    has_own_recipe,
    is_finished,
    lock_folder,
)
from dragoman.experiment.training_data import TrainingData, prepare_run
from dragoman.io.progress import Progress, ignore_progress
from dragoman.recipes.recipe import Recipe, dump_recipe, load_recipe, with_absolute_paths
from dragoman.text.cleaning import Problem
from dragoman.training.config import parse_duration
from dragoman.training.signals import TERMINATED, Terminated, handle_signals


@dataclass(frozen=True)
class TrainResult:
    """A finished run: its folder, its bundle, and the scores on its validation and test pairs."""

    folder: Path
    bundle: Path
    scores: tuple[CardScore, ...]
    was_finished: bool = False
    """True if an earlier call had already finished the run."""


def run_training(
    request: TrainRequest,
    launcher: Launcher | None = None,
    progress: Progress = ignore_progress,
    on_event: EventCallback = ignore_event,
) -> TrainResult:
    """Train the requested model, or resume its run; return the bundle and the scores.

    `launcher` decides where training happens: `Launcher()` is this process, `LocalProcesses()` (the default) is one
    process for each core of this machine, `Torchrun()` is the default in a process that torchrun has started. The
    checks, the messages and the result are the same for all launchers.

    `progress` is called while the text is read and prepared. `on_event` is called with a dict for each event: `plan`
    (choices and warnings), `note`, the events of training that also go to `log.jsonl` (`begin`, `update`,
    `validation`, `saved`, `score`, `end`, ...), `process lost`, and finally `finished` or `stopped`.

    Raise ValueError for errors that the user can fix, before anything is written. Ctrl-C raises KeyboardInterrupt, and
    SIGTERM raises `Terminated`, during training after a checkpoint is saved; if there is nothing to save, SIGTERM
    raises SystemExit.
    """
    folder = request.out
    launcher = launcher or default_launcher(request.device, parse_duration(request.timeout))
    with launcher, handle_signals(_exit, signal.SIGTERM), ExitStack() as lock:
        notify = on_event if launcher.is_first else ignore_event
        try:
            processes = launcher.run_on_first(lambda: _prepare(request, launcher, lock, progress, notify))
            if processes:
                launcher.train(request, processes, notify)
        except (KeyboardInterrupt, Terminated, SystemExit):
            notify({"event": "stopped", "message": describe_stop(folder)})
            raise
        # Only the first process knows when the bundle is complete.
        bundle = open_bundle(folder, verify=False) if launcher.is_first else None
        scores, languages = (bundle.card.scores, bundle.info.target_languages) if bundle else ((), ())
        to = {"to": languages[0]} if languages else {}
        notify({"event": "finished", "folder": str(folder), "was_finished": not processes, **to})
    return TrainResult(folder, folder / BUNDLE, scores, was_finished=not processes)


def write_recipe(request: TrainRequest, progress: Progress, on_event: EventCallback) -> Path:
    """Write the recipe of a request to the run folder without training; return the path of the recipe."""
    path = request.out / RECIPE
    plan = _plan(request, progress, on_event)
    check_not_running(request.out)  # a second time: choosing takes a while
    request.out.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_recipe(plan.recipe), encoding="utf-8")
    return path


def _prepare(
    request: TrainRequest, launcher: Launcher, lock: ExitStack, progress: Progress, on_event: EventCallback
) -> int:
    """Check the request, lock the folder and prepare the data.

    Return the number of training processes, or 0 if the run is already finished.
    """
    folder = request.out
    if _is_same_and_finished(request, progress):
        return 0
    plan = _plan(request, progress, on_event)
    processes = launcher.num_processes(request.processes, plan.recipe.training.batches_per_update)
    setup = RunSetup(plan.recipe, folder, processes, request.tensorboard, launcher.num_local(processes))
    machine = this_machine(request.device)
    findings = list(preflight(setup, machine))
    raise_problems(findings)
    findings += (Finding("plan", "warning", warning) for warning in plan.warnings)
    for warning in alignment_warnings(plan.recipe, folder, progress):
        on_event({"event": "note", "message": f"note: {warning}"})
        findings.append(Finding("alignment", "warning", warning))
    lock.enter_context(lock_folder(folder))
    if not has_checkpoint(folder):  # else the findings of the first start stay
        save_findings(folder, findings)
    if request.recipe is None and not has_checkpoint(folder):
        save_plan(folder, request.choices, with_absolute_paths(plan.recipe))
    recipe = prepare_run(
        plan.recipe,
        folder,
        progress=progress,
        allow_changes=request.allow_changes,
        is_fast_in_bfloat16=machine.bfloat16,
        device=request.device,
    )
    if request.recipe is None:
        save_plan(folder, request.choices, recipe)
    for note in _notes(plan.recipe, recipe, folder):
        on_event({"event": "note", "message": note})
    return processes


def _plan(request: TrainRequest, progress: Progress, on_event: EventCallback) -> Plan:
    """Check the folder, plan the training, report the plan and return it."""
    folder = request.out
    raise_problems([check_folder(folder)])
    check_not_running(folder)
    if request.recipe is None and has_own_recipe(folder):
        wrong = f"{folder / RECIPE} would be overwritten"
        raise ValueError(
            f"{wrong}: train it with dragoman train {folder / RECIPE} --out {folder}, or give another --out"
        )
    plan = plan_resumed(request) or plan_training(request, progress)
    on_event({"event": "plan", "choices": plan.choices, "warnings": plan.warnings})
    return plan


def _is_same_and_finished(request: TrainRequest, progress: Progress) -> bool:
    """Return True if the requested run is finished. Raise ValueError if the folder holds another finished run."""
    folder = request.out
    if not is_finished(folder) or not (folder / (RECIPE if request.recipe else REQUEST)).is_file():
        return False
    if request.recipe is None:
        check_same_request(folder, request.choices, f"{folder} holds a finished model: give another --out")
    else:
        now = with_absolute_paths(plan_training(request, progress).recipe)
        check_same_as_finished(load_recipe(folder / RECIPE), now, folder)
    return True


def _notes(planned: Recipe, recipe: Recipe, folder: Path) -> Iterator[str]:
    """Yield notes for the user about held-out pairs removed from training, and about added corpora."""
    data = TrainingData.open(folder)
    is_split_off = all(Path(dev.source).is_relative_to(folder.absolute()) for dev in planned.data.dev_sets)
    tests = [corpus for corpus in planned.data.test if not Path(corpus.source).is_relative_to(folder.absolute())]
    if tests or not is_split_off:
        reports = [report for part in data.folders for report in load_reports(part.folder).values()]
        if left_out := sum(report.counts.get(Problem.LEAK, {}).get("drop", 0) for report in reports):
            yield f"{left_out:,} training pair{'s' * (left_out > 1)} left out: also held out for validation or test"
    for name, update in data.first_updates(recipe):
        last = recipe.training.stop.updates
        note = f"{name} was added to this run: read from update {update:,} on, when the epoch before it is over"
        yield note + (f"; training ends before that, with update {last:,} (training.stop.updates)" * (update > last))


def _exit(*_: object) -> None:
    """Exit on SIGTERM with the conventional exit code; during training, the trainer handles SIGTERM."""
    sys.exit(TERMINATED)
