"""One process of a training: `python -m dragoman.cli.worker FOLDER`, started by the launcher once for each."""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Join the others and train. What a user can mend is left for the launcher to say, once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once and without a word: the launcher says it, once
    from dragoman.cli.display import display
    from dragoman.experiment.launch import ORDERS
    from dragoman.experiment.run import carry_out
    from dragoman.training.parallel import joined

    folder, orders = Path(sys.argv[1]), json.loads(os.environ[ORDERS])
    try:
        with joined() as group, display(group.is_first) as tell:
            carry_out(folder, group, tell, orders["command"], orders["tensorboard"])
    except ValueError as error:
        Path(orders["complaint"]).write_text(str(error), encoding="utf-8")
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
