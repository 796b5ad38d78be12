"""Durable writes: a file is written under a temporary name, hashed, synced to disk and then renamed.

A file under its final name is therefore complete, even after a crash.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import Field

from dragoman.config import Config
from dragoman.io.progress import Progress, ignore_progress
from dragoman.io.remote_path import AnyPath

FIX: Final = "run dragoman prepare again, which rewrites only damaged files"
UNFINISHED: Final = ".incomplete"
"""The suffix of a file that is being written, or that a killed process left behind."""


class FileInfo(Config):
    """The name, hash and size of a file in a manifest."""

    file: str = Field(pattern=r"^[^./\\][^/\\]*$", description="name of the file, without its folder")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content")
    num_bytes: int = Field(ge=0, description="size of the file in bytes")


class DamageError(ValueError):
    """Raised for a damaged file; the message names the file, the damage and the fix."""

    def __init__(self, path: AnyPath, wrong: str, fix: str = FIX) -> None:
        super().__init__(path, wrong, fix)  # all of them, so that it can be pickled

    def __str__(self) -> str:
        path, wrong, fix = self.args
        return f"{path}: {wrong}; {fix}"


class Sink:
    """A writable file that counts and hashes the written bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes, or any object with the buffer protocol, such as an Arrow buffer."""
        written = self.file.write(data)
        self.sha256.update(data)
        self.num_bytes += written
        return written

    def flush(self) -> None:
        """Flush the file's buffer to the operating system."""
        self.file.flush()


def write_durably(path: Path, content: bytes | Callable[[Sink], object]) -> FileInfo:
    """Write bytes, or the output of a callback, to a file atomically: after a failure, the old file is unchanged."""
    # The name differs for every attempt, so that two processes that write the same file cannot mix their bytes.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with beside.open("xb") as file:
            sink = Sink(file)
            if callable(content):
                content(sink)
            else:
                sink.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return FileInfo(file=path.name, sha256=sink.sha256.hexdigest(), num_bytes=sink.num_bytes)


def check_new_folder(out: Path) -> None:
    """Raise ValueError if the folder of --out exists and is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out {out} exists and is not an empty folder: give a new or empty folder")


@contextlib.contextmanager
def write_folder_durably(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out` at the end of the block; after a failure, nothing is left."""
    check_new_folder(out)
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.{secrets.token_hex(4)}{UNFINISHED}")
    beside.mkdir()
    try:
        yield beside
        if out.is_dir():
            out.rmdir()
        beside.rename(out)
        sync_folder(out.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that renames in it survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hash_file(path: AnyPath) -> str:
    """Return the SHA-256 of a file, computed in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_damage(folder: AnyPath, info: FileInfo, hashed: bool = True) -> str | None:
    """Return a description of a file's damage, or None; without `hashed`, check only existence and size."""
    path = folder / info.file
    if not path.is_file():
        return "the file is missing"
    num_bytes = path.stat().st_size
    if num_bytes != info.num_bytes:
        return f"the file has {num_bytes} bytes instead of {info.num_bytes}"
    if hashed and hash_file(path) != info.sha256:
        return "the content of the file has changed (the sha256 differs)"
    return None


def verify_files(
    folder: Path,
    files: Sequence[FileInfo],
    hashed: bool = True,
    fix: str = FIX,
    progress: Progress = ignore_progress,
) -> None:
    """Raise a DamageError that names the damaged files if any file is damaged."""
    damages = []
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter lock
        for damage in pool.map(lambda info: find_damage(folder, info, hashed), files):
            damages.append(damage)
            if hashed:
                progress(f"verify {folder}", len(damages), len(files), "files")
    wrong = [(info.file, damage) for info, damage in zip(files, damages, strict=True) if damage]
    if wrong:
        file, damage = wrong[0]
        others = f" (and {len(wrong) - 1} more: {', '.join(name for name, _ in wrong[1:9])})" if wrong[1:] else ""
        raise DamageError(folder / file, damage + others, fix)
