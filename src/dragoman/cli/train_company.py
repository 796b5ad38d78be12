"""`dragoman train` as one of the processes that torchrun has started, on one machine or on many."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from dragoman.cli.asked import Asked
from dragoman.cli.train_end import finished, is_lost_neighbour, leave, stopped


def train_in_company(asked: Asked, out: Path, tensorboard: bool, changed: bool) -> None:
    """The first process prepares, while the others wait; then all of them train. The folder must be one for all."""
    launcher = os.getppid()
    try:
        _train(asked, out, tensorboard, changed)
    except RuntimeError as error:
        if is_lost_neighbour(error):
            leave(launcher)
        raise


def _train(asked: Asked, out: Path, tensorboard: bool, changed: bool) -> None:
    from dragoman.cli.display import display
    from dragoman.experiment.run import carry_out, typed
    from dragoman.training.parallel import joined
    from dragoman.training.wishes import TERMINATED, Terminated

    try:
        with joined() as group, ExitStack() as held:
            is_first = group.is_first
            complaint, done = group.said_by_first(_prepared(asked, out, changed, held) if is_first else ("", False))
            if complaint:
                if is_first:
                    raise ValueError(complaint)
                raise SystemExit(2)  # the first one says why, once
            if not done:
                with display(is_first) as tell:
                    carry_out(out, group, tell, typed(sys.argv[1:]), tensorboard)
            if is_first:
                print(f"finished already: {finished(out)}" if done else finished(out), flush=True)
    except Terminated:
        if is_first:
            print(stopped(out), file=sys.stderr, flush=True)
        raise SystemExit(TERMINATED) from None


def _prepared(asked: Asked, out: Path, changed: bool, held: ExitStack) -> tuple[str, bool]:
    """Prepare the run and keep its folder locked. Gives what is wrong with it, if it cannot be begun, and whether it is
    finished already.
    """
    from rich.console import Console

    from dragoman.cli.asked import begun, planned
    from dragoman.cli.progress import shown
    from dragoman.cli.train_begin import explain, is_done, prepare_run
    from dragoman.experiment.lock import alone_in
    from dragoman.experiment.preflight import of_folder, refuse

    try:
        if is_done(asked, out):
            return "", True
        refuse([of_folder(out)])
        held.enter_context(alone_in(out))
        with shown() as progress:
            plan = begun(asked, out, changed) or planned(asked, progress)
        explain(plan, Console(highlight=False, markup=False))
        prepare_run(asked, plan, out, changed)
    except ValueError as error:
        return str(error), False
    return "", False
