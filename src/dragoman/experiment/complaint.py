"""What the processes of a training leave for their launcher, which says it once and ends, or starts them again."""

import contextlib
import os
import signal
from pathlib import Path


def complain(of_what: str, complaint: Path) -> None:
    """Leave it for the launcher to say, and end it: or else it would start all again, which mends nothing.

    All processes tend to fail of one cause: the first that comes is heard, and nobody writes over its words.
    """
    with contextlib.suppress(FileExistsError):
        with complaint.open("x", encoding="utf-8") as file:
            file.write(of_what)
        os.kill(os.getppid(), signal.SIGTERM)


def fails_again(failure: str, attempt: str, last: Path) -> bool:
    """Once may be chance, and all are started again; what an earlier attempt failed of will fail for ever."""
    before = last.read_text(encoding="utf-8") if last.exists() else ""
    last.write_text(f"{attempt} {failure}", encoding="utf-8")
    made, _, of_what = before.partition(" ")
    return of_what == failure and made != attempt
