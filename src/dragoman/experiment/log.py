"""The log of a run: log.jsonl with one line of JSON per event, and TensorBoard files on request."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dragoman.evaluation.metric_options import METRICS
from dragoman.io.durable import write_durably

Event = dict[str, Any]
"""A log entry: the key `event` is its type, the other keys are its values."""

EventCallback = Callable[[Event], None]

LOG: Final = "log.jsonl"

_NOT_LOGGED: Final = {"progress", "validating", "stopping", "scoring"}
"""Events for displays, at most a few per second."""

_CURVES: Final = {"loss", "rate", "gradient", "tokens_per_second", *METRICS}


class TrainingLog:
    """Writes events to log.jsonl, flushed after each line, so that a killed run keeps its log.

    Use in a `with` statement.
    """

    def __init__(self, folder: Path, tensorboard: bool = False, is_resumed: bool = False) -> None:
        """Open the log: a resumed run appends to the existing log, any other run starts a new log."""
        self._board = _board(folder) if tensorboard else None  # first: it may be missing
        self._folder = folder
        self._file = (folder / LOG).open("a" if is_resumed else "w", encoding="utf-8")

    def __enter__(self) -> "TrainingLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._board:
            self._board.close()

    def __call__(self, event: Event) -> None:
        if event["event"] in _NOT_LOGGED:
            return
        if event["event"] == "resumed":
            self._rewind(event["update"])
        print(json.dumps(event, ensure_ascii=False), file=self._file, flush=True)
        if self._board and event["event"] in ("update", "validation"):
            group = "training" if event["event"] == "update" else "validation"
            for name in event.keys() & _CURVES:
                self._board.add_scalar(f"{group}/{name}", event[name], event["update"])

    def _rewind(self, update: int) -> None:
        """Remove the events after an update, since the resumed run logs them again."""
        events = [event for event in read_log(self._folder) if event.get("update", update + 1) <= update]
        kept = [event for number, event in enumerate(events) if event["event"] != "begin" or number == 0]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept)
        self._file.close()
        write_durably(self._folder / LOG, text.encode())
        self._file = (self._folder / LOG).open("a", encoding="utf-8")


def ignore_event(_: Event) -> None:
    """Do nothing: the default event callback."""


def _board(folder: Path) -> Any:
    import tensorboard  # noqa: F401  a missing extra is named by its own module, not by torch's wrapper
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))


def read_log(folder: Path) -> list[Event]:
    """Return the events of a run, oldest first; skip an incomplete last line."""
    events = []
    for line in (folder / LOG).read_bytes().split(b"\n"):  # bytes: the cut may go through a letter
        if line:
            try:
                events.append(json.loads(line))
            except ValueError:
                break
    return events
