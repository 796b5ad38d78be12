"""`dragoman train --studio`: the studio of a run, in a process beside the training."""

import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dragoman.experiment.log import Event, EventCallback

_CODE: Final = (
    "import sys; from pathlib import Path; from dragoman.studio.studio_server import run_beside; "
    "run_beside(Path(sys.argv[1]), int(sys.argv[2]))"
)


class StudioBeside:
    """An event callback that starts the studio when training begins, and passes all events on.

    Training does not wait for the studio: the address is an event of its own, passed on when it is known. Use it in a
    `with` statement: the studio ends with the block, and by itself if this process dies.
    """

    def __init__(self, run: Path, on_event: EventCallback) -> None:
        if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
            needs = "--studio needs packages that are not installed: pip install 'dragoman[serve]'"
            raise ValueError(f"{needs} ({' and '.join(missing)} missing)")
        self._run, self._on_event = run, on_event
        self._process: subprocess.Popen[str] | None = None
        self._address = ""

    def __enter__(self) -> "StudioBeside":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.terminate()

    def __call__(self, event: Event) -> None:
        """Pass an event on; start the studio at the first event of training."""
        if event["event"] == "begin" and self._process is None:
            self._start()
        if self._address:
            address, self._address = self._address, ""
            self._on_event({"event": "studio", "address": address})
        self._on_event(event)

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                # -P: a random.py of the user is not Python's.
                [sys.executable, "-P", "-c", _CODE, str(self._run), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C is for the training, which saves a checkpoint
            )
        except OSError:  # no memory or no process left: training goes on without
            return
        threading.Thread(target=self._read_address, args=[self._process], daemon=True).start()

    def _read_address(self, process: "subprocess.Popen[str]") -> None:
        if process.stdout:
            self._address = process.stdout.readline().strip()
