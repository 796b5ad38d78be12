"""Checkpoints of a run: saved in the background with torch.distributed.checkpoint, durable and verified.

A checkpoint is a folder such as `update-000000300`. The folder is written under a temporary name, hashed, synced and
then renamed, so a folder with its final name is complete. At most one checkpoint is being saved at a time, and old
checkpoints are removed only after a new one is complete.
"""

import shutil
import warnings
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import torch
from pydantic import Field, ValidationError
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from dragoman.config import Config
from dragoman.device import CPU
from dragoman.io import hashed_json
from dragoman.io.durable import UNFINISHED, FileInfo, hash_file, sync_folder, verify_files, write_durably
from dragoman.training.parallel import Group

MANIFEST: Final = "manifest.json"
_FIX: Final = "an older checkpoint is used instead"


class CheckpointFile(FileInfo):
    """The name, size and hash of a file in a checkpoint."""

    file: str = Field(pattern=r"^(\.metadata|__\d+_\d+\.distcp)$", description="file name chosen by torch")


class CheckpointManifest(Config):
    """The manifest of a checkpoint: the training state without tensors, and the list of files."""

    format_version: Literal[2] = Field(2, description="version of the folder layout")
    update: int = Field(ge=0, description="number of the last update before the checkpoint")
    state: dict[str, Any] = Field(description="training state without tensors")
    processes: int = Field(ge=1, description="number of training processes")
    threads: int = Field(ge=1, description="threads per process; another number changes results in the last bits")
    device: str = Field(CPU, description="device of each process; another kind changes results in the last bits")
    files: tuple[CheckpointFile, ...] = Field((), description="files written by torch")


class SaveResult(NamedTuple):
    """The result of saving a checkpoint: the update number, and the error if saving failed."""

    update: int
    error: str | None = None
    """The reason why saving failed; None on success."""


class Checkpoints:
    """The checkpoints of one run. Every process has an instance and saves and loads at the same updates."""

    def __init__(self, folder: Path, keep: int, group: Group, device: str = CPU) -> None:
        self.folder, self.keep, self.group, self.device = folder, keep, group, device
        self.results: deque[SaveResult] = deque()
        self._process_group = group.new_process_group()
        self._sealer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._in_flight: tuple[int, Future[Any]] | None = None
        self._num_bytes = 0

    def save(self, update: int, state: Mapping[str, Any]) -> None:
        """Wait for the previous checkpoint, copy the state, and write the copy in the background."""
        self.finish()
        tensors, rest = split_state(state)
        folder = self._unfinished(update)
        rest = deepcopy(rest)  # it is written while training goes on
        processes, threads = self.group.world_size, torch.get_num_threads()
        manifest = CheckpointManifest(
            update=update, state=rest, processes=processes, threads=threads, device=self.device
        )
        if self.group.is_first:
            shutil.rmtree(folder, ignore_errors=True)
        writer = FileSystemWriter(folder, single_file_per_rank=True, sync_files=True, overwrite=True)
        written = async_save(tensors, storage_writer=writer, **self._distributed())
        assert isinstance(written, Future)
        self._in_flight = update, self._sealer.submit(self._seal, written, folder, manifest)
        self._num_bytes = sum(tensor.nbytes for tensor in tensors.values())

    def _distributed(self) -> dict[str, Any]:
        # torch warns that one process saves alone, which is as it should be.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        return {"process_group": self._process_group, "no_dist": self.group.world_size == 1}

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, and append the result to `results`."""
        if self._in_flight is None:
            return
        update, future = self._in_flight
        self._in_flight = None
        error = future.exception()
        if error and self.group.is_first:
            shutil.rmtree(self._unfinished(update), ignore_errors=True)
        self.results.append(SaveResult(update, (self._disk_full() or _reason(error)) if error else None))

    def _disk_full(self) -> str:
        """Return an error message if the disk is full, else an empty string; torch's own message is misleading."""
        try:
            free = shutil.disk_usage(self.folder.parent).free
        except OSError:
            return ""
        if free >= self._num_bytes:
            return ""
        needed, left = (f"{num_bytes / 1e6:,.0f} MB" for num_bytes in (self._num_bytes, free))
        return f"no space left in {self.folder} ({left} are free): free {needed} for a checkpoint"

    def poll(self) -> None:
        """Append the result to `results` if the background save is complete; do not wait."""
        if self._in_flight is not None and self._in_flight[1].done():
            self.finish()

    def _seal(self, written: Future[Any], folder: Path, manifest: CheckpointManifest) -> None:
        """Wait until all processes have written and hashed their files, and give the folder its final name."""
        files = self._hash_together(written, folder)
        if not self.group.is_first:
            return
        content = hashed_json.render(manifest.model_copy(update={"files": files}).model_dump(mode="json"))
        write_durably(folder / MANIFEST, content)
        final = self.folder / _name(manifest.update)
        if final.exists():  # of the same update, and so with the same content
            shutil.rmtree(final)
        folder.rename(final)
        sync_folder(self.folder)
        for old in self._complete()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def _hash_together(self, written: Future[Any], folder: Path) -> tuple[CheckpointFile, ...]:
        """Return the names and hashes of all files; each process hashes its own, and the first torch's list as well."""
        own: list[CheckpointFile] = []
        error: BaseException | None = None
        try:
            written.result()
            pattern = "*" if self.group.world_size == 1 else f"__{self.group.rank}_*"
            paths = [*folder.glob(pattern), *(folder.glob(".metadata") if self.group.is_first else ())]
            for path in sorted({*paths}):
                own.append(CheckpointFile(file=path.name, sha256=hash_file(path), num_bytes=path.stat().st_size))
        except Exception as wrong:  # the others must not wait for hashes that will not come
            error = wrong
        gathered = self.group.all_gather((own, error and _reason(error)), self._process_group)
        if error:
            raise error
        for _, reason in gathered:
            if reason:
                raise RuntimeError(reason)
        return tuple(sorted((file for files, _ in gathered for file in files), key=lambda file: file.file))

    def newest(self) -> tuple[CheckpointManifest | None, list[str]]:
        """Return the newest intact checkpoint, and the errors of newer, damaged checkpoints, which are renamed.

        Each process verifies a share of the files.
        """
        if self.group.is_first:
            for left_over in self.folder.glob(f".*{UNFINISHED}"):
                shutil.rmtree(left_over, ignore_errors=True)
        errors: dict[Path, str] = {}
        for folder in reversed(self.group.broadcast_from_first(self._complete())):
            manifest, error = self._verify_together(folder)
            if manifest is None:
                errors[folder] = error
                continue
            for damaged in errors if self.group.is_first else ():
                aside = damaged.with_name(f"damaged-{damaged.name}")
                shutil.rmtree(aside, ignore_errors=True)
                damaged.rename(aside)
            return manifest, list(errors.values())
        if errors:
            reasons = "; ".join(reason.removesuffix(f"; {_FIX}") for reason in errors.values())
            raise ValueError(f"no checkpoint is intact ({reasons}): remove {self.folder} to start the run over")
        return None, []

    def _verify_together(self, folder: Path) -> tuple[CheckpointManifest | None, str]:
        """Return the manifest of a checkpoint if all files are intact, else None and the error."""
        manifest, error = None, ""
        if self.group.is_first:
            try:
                manifest = read_manifest(folder)
            except (ValueError, OSError) as wrong:
                error = str(wrong)
        manifest, error = self.group.broadcast_from_first((manifest, error))
        if manifest is None:
            return None, error
        try:
            verify_files(folder, manifest.files[self.group.rank :: self.group.world_size], fix=_FIX)
        except (ValueError, OSError) as wrong:
            error = str(wrong)
        errors = [error for error in self.group.all_gather(error) if error]
        return (None, errors[0]) if errors else (manifest, "")

    def load(self, manifest: CheckpointManifest, state: Mapping[str, Any]) -> None:
        """Load the tensors of a checkpoint into the tensors of `state`."""
        reader = FileSystemReader(self.folder / _name(manifest.update))
        load(split_state(state)[0], storage_reader=reader, **self._distributed())

    def remove(self) -> None:
        """Remove all checkpoints; call this at the end of a run."""
        if self.group.is_first:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _complete(self) -> list[Path]:
        return sorted(self.folder.glob("update-*"))

    def _unfinished(self, update: int) -> Path:
        return self.folder / f".{_name(update)}{UNFINISHED}"


def split_state(state: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split a nested state into its tensors, by dotted path, and the other values."""
    tensors: dict[str, Tensor] = {}
    rest: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Tensor):
            tensors[prefix + key] = value
        elif isinstance(value, Mapping):
            inner, inner_rest = split_state(value, f"{prefix}{key}.")
            tensors |= inner
            rest |= {key: inner_rest} if inner_rest else {}
        else:
            rest[key] = value
    return tensors, rest


def read_manifest(folder: Path) -> CheckpointManifest:
    """Return the manifest of a checkpoint; raise ValueError if the manifest is missing or damaged."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing; {_FIX}")
    body = hashed_json.read(path, _FIX)
    if body.get("format_version") == 1:
        raise ValueError(f"{path}: an older version of dragoman wrote this file; finish the run with that version")
    try:
        manifest = CheckpointManifest.model_validate(body)
    except ValidationError as error:
        raise ValueError(f"{path}: invalid manifest ({error}); {_FIX}") from error
    if folder.name != _name(manifest.update):
        raise ValueError(f"{path}: the manifest belongs to update {manifest.update:,}; {_FIX}")
    return manifest


def _name(update: int) -> str:
    return f"update-{update:09}"


def _reason(error: BaseException) -> str:
    """Return the message of the original error: torch wraps the errors of all processes in one exception."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))[0]
    return str(error) or type(error).__name__
