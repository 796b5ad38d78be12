"""torchrun: end it for an error that the user has to fix, for which it would start the processes again in vain."""

import os
import signal
from pathlib import Path
from typing import Final

LAUNCHER: Final = os.getppid()
"""torchrun, if it has started this process: if it is killed, the process gets another parent."""

SECONDS_FOR_MESSAGE: Final = 5.0
"""The time in which the process that reports an error ends torchrun; the others, as on other machines, wait for it."""

_is_reporting = False


def is_under_torchrun() -> bool:
    """Return True if torchrun has started this process and still runs."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() == LAUNCHER


def end_torchrun() -> bool:
    """End torchrun, if this process runs under it; return True if this process has to report its error.

    Only the first of torchrun's processes on this machine reports, and sends SIGTERM to torchrun: a second signal would
    disturb torchrun's end. That process ignores the SIGTERM that torchrun sends in turn.
    """
    global _is_reporting
    errors = os.environ.get("TORCHELASTIC_ERROR_FILE")  # in a folder of this attempt and this process
    if _is_reporting or not errors or not is_under_torchrun():
        return True
    try:
        (Path(errors).parents[1] / "ended").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # torchrun's temporary folder is gone, and torchrun with it
        return True
    _is_reporting = True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(LAUNCHER, signal.SIGTERM)
    return True
