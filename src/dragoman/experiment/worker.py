"""A training process: `python -m dragoman.experiment.worker FOLDER OPTIONS`, started by `LocalProcesses`."""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path


def main() -> None:
    """Join the process group and train; report all events and errors to the launcher."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # before training, end at once and silently: the launcher reports it
    from dragoman.io.processes import exit_with_parent

    exit_with_parent(os.getppid())  # a launcher that was killed has unlocked the folder: others may train there
    from dragoman.device import choose_device
    from dragoman.experiment.launchers import USER_ERROR, describe_loss, is_lost_process, send_report
    from dragoman.experiment.log import ignore_event
    from dragoman.experiment.train_model import train_model
    from dragoman.training.parallel import init_group
    from dragoman.training.signals import TERMINATED, Terminated

    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    report = partial(send_report, options["address"])
    report({"event": "started"})
    try:
        with init_group(choose_device(options["device"]), options["timeout"]) as group:
            on_event = report if group.is_first else ignore_event
            train_model(folder, group, on_event, options["command"], options["tensorboard"])
    except ValueError as error:
        report({"event": "error", "message": str(error)})
        raise SystemExit(USER_ERROR) from error
    except (KeyboardInterrupt, Terminated):
        raise SystemExit(TERMINATED) from None
    except Exception as error:
        if is_lost_process(error):
            report({"event": "process lost", "attempt": attempt, "reason": describe_loss(error)})
            os._exit(1)  # a checkpoint that is still being written waits for the lost process
        report({"event": "failure", "attempt": attempt, "message": f"{type(error).__name__}: {error}"})
        raise


if __name__ == "__main__":
    main()
