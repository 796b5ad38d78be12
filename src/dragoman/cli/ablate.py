"""`dragoman ablate`: train the rows of the paper's Table 3 from a recipe, and compare them."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from dragoman.cli.command import option, out_option
from dragoman.cli.train import Processes, complete_recipe
from dragoman.cli.verbosity import is_quiet, print_note

if TYPE_CHECKING:
    from dragoman.lab.ablation import Variation

Overrides = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a recipe key in all models (repeatable).")
]


def ablate(
    recipe: Annotated[
        Path,
        Argument(metavar="RECIPE", help="Recipe file or name of a built-in recipe.", autocompletion=complete_recipe),
    ],
    out: Annotated[Path, out_option("Folder of the trainings and the table.")],
    rows: Annotated[str, option("ABCDE", "Rows of Table 3 to train beside the base.")] = "ABCDE",
    seeds: Annotated[int, option("N", "Trainings of each model; an interval needs two or more.", least=1)] = 3,
    time: Annotated[str | None, option("TIME", "Time limit of each training; default: the recipe's.")] = None,
    only: Annotated[
        list[str] | None, Option(metavar="NAME", help="Train only this model, such as heads-1 (repeatable).")
    ] = None,
    set_: Overrides = None,
    processes: Processes = None,
    commands: Annotated[
        bool, Option("--commands", help="Print the commands of the trainings, one per line, and stop.")
    ] = False,
) -> None:
    """Train the variations of the paper's Table 3 from any Transformer recipe, and compare them.

    Each variation changes one thing of the recipe's model by the paper's factors: (A) the number of heads, (B) d_k, (C)
    layers, width and inner width, (D) dropout and label smoothing, (E) learned positions. DIR/table.md has perplexity
    and BLEU on the validation pairs with intervals over the seeds, and DIR/table.svg the differences from the base.

    A finished training is not repeated and an interrupted one resumes, so the same command goes on. With --commands,
    other machines train: as an array of SLURM, for example. The same command without it then writes the table.

        dragoman ablate multi30k-en-de --out table3/ --time 20m

        dragoman ablate recipe.yaml --out table3/ --rows AB --seeds 5 --set model.d_model=128

        dragoman ablate recipe.yaml --out table3/ --commands > jobs.txt
    """
    from dragoman.experiment.request import TrainRequest, plan_training
    from dragoman.experiment.run_state import is_finished
    from dragoman.io.progress import ignore_progress
    from dragoman.lab.ablation import ROWS, read_results, run_folder, variations
    from dragoman.lab.ablation_page import TABLE_FILE, render_table, write_page

    if unknown := set(rows) - set(ROWS):
        raise ValueError(f"--rows {rows}: there is no row {sorted(unknown)[0]}: give letters of {''.join(ROWS)}")
    request = TrainRequest(out=out, recipe=recipe, overrides=tuple(set_ or ()), time=time)
    every = variations(plan_training(request, ignore_progress).recipe, rows)
    chosen = _choose(every, only or [])
    folders = {(one, seed): run_folder(out, one, seed) for seed in range(1, seeds + 1) for one in chosen}
    for number, ((variation, seed), folder) in enumerate(folders.items(), 1):
        overrides = [*(set_ or []), *variation.changes, f"seed={seed}"]
        command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--out", str(folder)]
        command += [part for change in overrides for part in ("--set", change)]
        command += [] if time is None else ["--time", time]
        command += [] if processes is None else ["--processes", str(processes)]
        if commands:
            print(shlex.join(["dragoman", *command[3:]]))
        elif not is_finished(folder):
            print_note(f"{number} of {len(folders)}: {variation.name}, seed {seed}")
            _train([*command, *["--quiet"] * is_quiet()])
    if commands:
        return
    results = read_results(out, every)
    write_page(results, out, shlex.join(["dragoman", *sys.argv[1:]]))
    print(render_table(results))
    print_note(f"{out / TABLE_FILE}")


def _choose(every: list["Variation"], names: list[str]) -> list["Variation"]:
    known = {variation.name: variation for variation in every}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"--only {unknown[0]}: there is no such model: give one of {', '.join(known)}")
    return [known[name] for name in names] or every


def _train(command: list[str]) -> None:
    """Run a training; after Ctrl-C, wait until it has saved its state, and raise Exit with its exit code.

    All that it prints goes to standard error: standard output is for the table.
    """
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # the training has had the signal too
                continue
    if code:
        raise Exit(128 + signal.Signals(-code) if code < 0 else code)
