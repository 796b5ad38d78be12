"""Checkpoints of a run, through torch's distributed checkpoints: saved while training goes on, durable, and verified.

A checkpoint is a folder `update-000000300`. It is written under another name, hashed, made durable, and only then
renamed: one that has its name is whole. One is in flight at a time, and old ones go only after a new one is there.
"""

import shutil
import warnings
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import Field, JsonValue, ValidationError
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.durable import UNFINISHED, FileInfo, digest, sync_folder, verify, write_durably
from dragoman.training.parallel import Group

MANIFEST: Final = "manifest.json"
_MEND: Final = "an older checkpoint will do, if there is one"
_ALONE: Final = "torch.distributed is disabled"
"""How torch begins to say that one process saves alone, which is as it should be."""


class CheckpointFile(FileInfo):
    """What a file of a checkpoint must be, byte for byte."""

    file: str = Field(pattern=r"^(\.metadata|__\d+_\d+\.distcp)$", description="the name that torch gave it")


class Saved(Config):
    """A checkpoint, short of its tensors."""

    format_version: Literal[1] = Field(1, description="which layout of the folder this is")
    update: int = Field(ge=0, description="after which update")
    numbers: dict[str, JsonValue] = Field(description="the counters of the training")
    processes: int = Field(ge=1, description="how many trained together")
    threads: int = Field(ge=1, description="of each process; with the processes, what makes a run the same bit for bit")
    files: tuple[CheckpointFile, ...] = Field((), description="what torch wrote")


@dataclass(frozen=True)
class News:
    """What became of a checkpoint."""

    update: int
    problem: str | None = None
    """Why there is none; None if it is safe on disk."""


class Checkpoints:
    """Those of one run. Every process of the group makes one, and all of them save and load at the same updates."""

    def __init__(self, folder: Path, keep: int, group: Group) -> None:
        self.folder, self.keep, self.group = folder, keep, group
        self.news: deque[News] = deque()
        self._apart = group.another_line()
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._in_flight: tuple[int, Future[Any]] | None = None
        self._bytes = 0

    def save(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Copy the state, and let it be written while training goes on. The last one is waited for."""
        self.finish()
        update = numbers["update"]
        beside = self.folder / f".{_name(update)}{UNFINISHED}"
        saved = Saved(update=update, numbers=dict(numbers), processes=self.group.size, threads=torch.get_num_threads())
        if self.group.is_first:
            shutil.rmtree(beside, ignore_errors=True)
        written = self._written(tensors, beside)
        sealed = self._sealing.submit(self._seal, written, beside, saved) if self.group.is_first else written
        self._in_flight = update, sealed
        self._bytes = sum(tensor.nbytes for tensor in tensors.values())

    def _written(self, tensors: Mapping[str, Tensor], folder: Path) -> Future[Any]:
        warnings.filterwarnings("ignore", message=_ALONE)
        written = async_save(
            dict(tensors),
            storage_writer=FileSystemWriter(folder, single_file_per_rank=True, sync_files=True, overwrite=True),
            process_group=self._apart,
            no_dist=self.group.size == 1,
        )
        assert isinstance(written, Future)
        return written

    def finish(self) -> None:
        """Wait for what is being written; what became of it is news."""
        if self._in_flight is None:
            return
        update, future = self._in_flight
        self._in_flight = None
        problem = future.exception()
        if problem and self.group.is_first:
            shutil.rmtree(self.folder / f".{_name(update)}{UNFINISHED}", ignore_errors=True)
        self.news.append(News(update, (self._no_space() or _reason(problem)) if problem else None))

    def _no_space(self) -> str:
        """That the disk is full, if it is: what torch says then has little to do with it."""
        try:
            free = shutil.disk_usage(self.folder.parent).free
        except OSError:
            return ""
        if free >= self._bytes:
            return ""
        return f"no space left in {self.folder}: it takes {_megabytes(self._bytes)}, and {_megabytes(free)} are free"

    def look(self) -> None:
        """Make news of what has been written meanwhile; waits for nothing."""
        if self._in_flight is not None and self._in_flight[1].done():
            self.finish()

    def _seal(self, written: Future[Any], beside: Path, saved: Saved) -> None:
        """Hash what torch wrote, once all processes have, and give it its name."""
        written.result()
        files = tuple(
            CheckpointFile(file=path.name, sha256=digest(path), num_bytes=path.stat().st_size)
            for path in sorted(beside.iterdir())
        )
        content = hashed.render(saved.model_copy(update={"files": files}).model_dump(mode="json"))
        write_durably(beside / MANIFEST, lambda sink: sink.write(content))
        final = self.folder / _name(saved.update)
        if final.exists():  # of the same update, and so with the same content
            shutil.rmtree(final)
        beside.rename(final)
        sync_folder(self.folder)
        for old in self._there()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def newest(self) -> tuple[Saved | None, list[str]]:
        """The newest that is whole, and what is wrong with those that are newer: they are put aside."""
        return self.group.said_by_first(self._newest() if self.group.is_first else (None, []))

    def _newest(self) -> tuple[Saved | None, list[str]]:
        for left_over in self.folder.glob(f".*{UNFINISHED}"):
            shutil.rmtree(left_over, ignore_errors=True)
        wrong: dict[Path, str] = {}
        for folder in reversed(self._there()):
            try:
                saved = inspected(folder)
            except (ValueError, OSError) as error:
                wrong[folder] = str(error)
            else:
                for damaged in wrong:
                    damaged.rename(_unused(damaged.with_name(f"damaged-{damaged.name}")))
                return saved, list(wrong.values())
        if wrong:
            told = "; ".join(reason.removesuffix(f"; {_MEND}") for reason in wrong.values())
            raise ValueError(
                f"no checkpoint is whole, so the run cannot go on; to begin anew, remove {self.folder}: {told}"
            )
        return None, []

    def load(self, saved: Saved, tensors: Mapping[str, Tensor]) -> None:
        """Read the tensors of a checkpoint into these."""
        warnings.filterwarnings("ignore", message=_ALONE)
        reader = FileSystemReader(self.folder / _name(saved.update))
        load(dict(tensors), storage_reader=reader, process_group=self._apart, no_dist=self.group.size == 1)

    def remove(self) -> None:
        """The run is over and its model is safe."""
        if self.group.is_first:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _there(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob("update-*"))


def inspected(folder: Path) -> Saved:
    """What a checkpoint says of itself, if every byte of it is what was written."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder / MANIFEST}: the file is missing; {_MEND}")
    body = hashed.read(folder / MANIFEST, _MEND)
    try:
        saved = Saved.model_validate(body)
    except ValidationError as error:
        raise ValueError(f"{folder / MANIFEST}: {error}; {_MEND}") from error
    if folder.name != _name(saved.update):
        raise ValueError(f"{folder / MANIFEST}: it is of the checkpoint of update {saved.update:,}; {_MEND}")
    verify(folder, saved.files, mend=_MEND)
    return saved


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB"


def _name(update: int) -> str:
    return f"update-{update:09}"


def _unused(path: Path) -> Path:
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(other for other in chain([path], others) if not other.exists())


def _reason(problem: BaseException) -> str:
    """The first cause, in words: torch wraps what went wrong in each process."""
    failures = getattr(problem, "failures", None)
    if failures:
        problem = next(iter(failures.values()))[0]
    return str(problem) or type(problem).__name__
