"""What happened in a run, as it happens: a line of JSON for each event, and TensorBoard where it is installed."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from dragoman.data.durable import write_durably

LOG: Final = "log.jsonl"

_CURVES: Final = ("loss", "rate", "gradient", "tokens_per_second", "bleu", "chrf")


class Log:
    """Use it in a `with` statement. Each line is written at once: a killed run has told all it knew."""

    def __init__(self, folder: Path, tensorboard: bool = False, goes_on: bool = False) -> None:
        """A run that goes on adds to the log it has; any other begins a new one."""
        self._board = _board(folder) if tensorboard else None  # first: it may be missing
        self._folder = folder
        self._file = (folder / LOG).open("a" if goes_on else "w", encoding="utf-8")

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        if self._board:
            self._board.close()

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "resumed":
            self._rewind(event["update"])
        print(json.dumps(event, ensure_ascii=False), file=self._file, flush=True)
        if self._board and event["event"] in ("update", "validation"):
            group = "training" if event["event"] == "update" else "validation"
            for name in _CURVES:
                if name in event:
                    self._board.add_scalar(f"{group}/{name}", event[name], event["update"])

    def _rewind(self, update: int) -> None:
        """Forget what will happen again: the log of a run that was killed reads like that of one that was not."""
        events = [event for event in read_log(self._folder) if event.get("update", update + 1) <= update]
        kept = [event for number, event in enumerate(events) if event["event"] != "begin" or number == 0]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept)
        self._file.close()
        write_durably(self._folder / LOG, lambda sink: sink.write(text.encode()))
        self._file = (self._folder / LOG).open("a", encoding="utf-8")


def _board(folder: Path) -> Any:
    import tensorboard  # noqa: F401  a missing extra is named by its own module, not by torch's wrapper
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run, oldest first. A last line that was cut off by a kill is left out."""
    events = []
    for line in (folder / LOG).read_bytes().split(b"\n"):  # bytes: the cut may go through a letter
        if line:
            try:
                events.append(json.loads(line))
            except ValueError:
                break
    return events
