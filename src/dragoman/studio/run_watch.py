"""A training run to watch: its log as it grows, its probe and its findings. Reads files alone, and needs no torch."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from dragoman.experiment.findings import load_findings
from dragoman.experiment.log import LOG
from dragoman.experiment.run_state import is_finished, is_run_folder, is_running
from dragoman.inspection.evolution import (
    EvolutionInfo,
    SnapshotSummary,
    join_snapshots,
    snapshot_folders,
    summarise_snapshot,
)
from dragoman.studio.schemas import LogEvent, LogPage, RunFinding, RunState, StudioRunInfo

SECONDS_BETWEEN_READS: Final = 0.5


def is_watchable(folder: Path) -> bool:
    """Return True if a folder holds a run, finished or not."""
    return folder.is_dir() and any(folder.iterdir()) and is_run_folder(folder)


class UnknownSnapshotError(ValueError):
    """Raised for a snapshot or a sentence that a run does not have."""


class WatchedRun:
    """A run folder of the studio."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self._summaries: dict[tuple[str, int], SnapshotSummary] = {}

    @property
    def info(self) -> StudioRunInfo:
        return StudioRunInfo(name=self.name, argument=str(self.folder))

    @property
    def state(self) -> RunState:
        """The state of the folder now."""
        findings = (RunFinding.model_validate(finding._asdict()) for finding in load_findings(self.folder))
        return RunState(
            is_running=is_running(self.folder),
            is_finished=is_finished(self.folder),
            snapshots=tuple(folder.name for folder in self._snapshots()),
            findings=tuple(findings),
        )

    def evolution(self) -> EvolutionInfo:
        """Return the statistics of every head at every snapshot; each snapshot is read once."""
        kept = {}
        for folder in snapshot_folders(self.folder):
            key = (folder.name, folder.stat().st_mtime_ns)  # a new run in the same folder has the same names
            kept[key] = self._summaries.get(key) or summarise_snapshot(folder)
        self._summaries = kept
        return join_snapshots(self.folder, list(kept.values())).info

    def trace(self, snapshot: str, sentence: int) -> bytes:
        """Return the trace file of a sentence, counted from 0, at a snapshot."""
        for folder in self._snapshots():
            if folder.name == snapshot and (path := folder / f"{sentence}.trace").is_file():
                return path.read_bytes()
        wrong = f"there is no snapshot {snapshot} with a sentence {sentence + 1}"
        raise UnknownSnapshotError(f"{wrong}: load the page again")

    async def messages(self, is_closing: Callable[[], bool]) -> AsyncIterator[str]:
        """Yield the log and each change of log and state as server-sent events, until `is_closing`."""
        reader, before = LogReader(self.folder / LOG), None
        while not is_closing():
            page, state = await asyncio.to_thread(lambda: (reader.read(), self.state))
            if page is not None:
                yield _message("log", page)
            if state != before:
                yield _message("state", state)
                before = state
            await asyncio.sleep(SECONDS_BETWEEN_READS)

    def _snapshots(self) -> list[Path]:
        try:
            return snapshot_folders(self.folder)
        except (OSError, ValueError):  # none yet, or a run that begins anew removes those of the run before
            return []


class LogReader:
    """Reads the lines of a log that are new since the last call; a log that was replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._offset = -1, 0

    def read(self) -> LogPage | None:
        """Return the new lines, without an incomplete last line; None if there are none."""
        try:
            with self._path.open("rb") as file:
                status = self._path.stat()
                is_first = status.st_ino != self._inode or status.st_size < self._offset
                file.seek(0 if is_first else self._offset)
                lines, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return None
        if not newline and not is_first:
            return None
        self._inode = status.st_ino
        self._offset = (0 if is_first else self._offset) + len(lines) + len(newline)
        events = tuple(event for line in lines.split(b"\n") if (event := _parse(line)))
        return LogPage(is_first=is_first, age=max(0.0, time.time() - status.st_mtime), events=events)


def _parse(line: bytes) -> LogEvent | None:
    try:
        return LogEvent.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        return None


def _message(event: str, data: BaseModel) -> str:
    return f"event: {event}\ndata: {data.model_dump_json(exclude_defaults=True)}\n\n"
