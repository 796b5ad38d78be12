"""`dragoman train` as one of the processes that torchrun has started, on one machine or on many."""

import sys
from contextlib import ExitStack
from pathlib import Path

from dragoman.cli.asked import Asked


def train_in_company(asked: Asked, out: Path, tensorboard: bool, changed: bool) -> None:
    """The first process prepares, while the others wait; then all of them train. The folder must be one for all."""
    from dragoman.cli.display import display
    from dragoman.experiment.run import carry_out, typed
    from dragoman.training.parallel import joined
    from dragoman.training.wishes import TERMINATED, Terminated

    try:
        with joined() as group, ExitStack() as held:
            if complaint := group.said_by_first(_prepared(asked, out, changed, held) if group.is_first else ""):
                if group.is_first:
                    raise ValueError(complaint)
                raise SystemExit(2)  # the first one says why, once
            with display(group.is_first) as tell:
                carry_out(out, group, tell, typed(sys.argv[1:]), tensorboard)
    except Terminated:
        raise SystemExit(TERMINATED) from None


def _prepared(asked: Asked, out: Path, changed: bool, held: ExitStack) -> str:
    """Prepare the run and keep its folder locked; what is wrong with it, if it cannot be begun."""
    from rich.console import Console

    from dragoman.cli.asked import begun, planned
    from dragoman.cli.progress import shown
    from dragoman.cli.train_begin import explain, prepare_run
    from dragoman.experiment.lock import alone_in
    from dragoman.experiment.preflight import of_folder, refuse

    try:
        refuse([of_folder(out)])
        held.enter_context(alone_in(out))
        with shown() as progress:
            plan = begun(asked, out, changed) or planned(asked, progress)
        explain(plan, Console(highlight=False, markup=False))
        prepare_run(asked, plan, out, changed)
    except ValueError as error:
        return str(error)
    return ""
