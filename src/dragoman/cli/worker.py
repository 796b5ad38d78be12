"""One process of a training: `python -m dragoman.cli.worker FOLDER`, started by the launcher once for each."""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Join the others and train. What a user can mend is left for the launcher to say, once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once and without a word: the launcher says it, once
    from dragoman.data.workers import end_with

    launcher = os.getppid()
    end_with(launcher)  # a launcher that was killed has given the folder free: others may train there
    from dragoman.cli.display import display
    from dragoman.cli.train_end import is_lost_neighbour, leave
    from dragoman.experiment.complaint import complain, fails_again
    from dragoman.experiment.launch import ORDERS
    from dragoman.experiment.run import carry_out
    from dragoman.training.parallel import joined
    from dragoman.training.wishes import TERMINATED, Terminated

    folder, orders = Path(sys.argv[1]), json.loads(os.environ[ORDERS])
    complaint = Path(orders["complaint"])
    try:
        with joined() as group, display(group.is_first) as tell:
            carry_out(folder, group, tell, orders["command"], orders["tensorboard"])
    except ValueError as error:
        complain(str(error), complaint)
        raise SystemExit(2) from error
    except Terminated:
        raise SystemExit(TERMINATED) from None
    except Exception as error:
        if is_lost_neighbour(error):
            leave(launcher, complaint.exists())
        failure = f"{type(error).__name__}: {error}"
        if fails_again(failure, os.environ["TORCHELASTIC_RESTART_COUNT"], Path(orders["failure"])):
            complain(f"the training failed twice in the same way, see above: {failure}", complaint)
        raise


if __name__ == "__main__":
    main()
