"""A file that is there is whole: written beside its place, made durable and hashed, and only then given its name."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import Field

from dragoman.config import Config

MEND: Final = "run prepare again: it rewrites only what is damaged"
UNFINISHED: Final = ".incomplete"
"""How the name of a file ends while it is being written. One that is left over belongs to a run that was killed."""


class FileInfo(Config):
    """What a file must be, byte for byte."""

    file: str = Field(pattern=r"^[^./\\][^/\\]*$", description="its name inside its folder")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="the hash of its bytes")
    num_bytes: int = Field(ge=0, description="its size")


class DamageError(ValueError):
    """A file is not what was written: names the file, what is wrong with it, and the mend."""

    def __init__(self, path: Path, wrong: str, mend: str = MEND) -> None:
        super().__init__(f"{path}: {wrong}; {mend}")


class Sink:
    """Where a file's content goes. Hashes what passes: the hash is of what was meant, not of what a disk made of it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Takes bytes, or anything that lends its memory as bytes, as Arrow's buffers do."""
        written = self.file.write(data)
        self.sha256.update(data)
        self.num_bytes += written
        return written

    def flush(self) -> None:
        self.file.flush()


def write_durably(path: Path, write: Callable[[Sink], object]) -> FileInfo:
    """Puts what `write` writes at `path`. Whatever fails on the way, `path` holds its old content or all of the new."""
    with _unfinished(path) as beside:
        with beside.open("xb") as file:
            sink = Sink(file)
            write(sink)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    sync_folder(path.parent)
    return FileInfo(file=path.name, sha256=sink.sha256.hexdigest(), num_bytes=sink.num_bytes)


def damage(folder: Path, info: FileInfo, hashed: bool = True) -> str | None:
    """What is wrong with a file, or None. Without `hashed`, only its presence and size are looked at."""
    path = folder / info.file
    if not path.is_file():
        return "the file is missing"
    num_bytes = path.stat().st_size
    if num_bytes != info.num_bytes:
        return f"the file has {num_bytes} bytes instead of {info.num_bytes}"
    if hashed and digest(path) != info.sha256:
        return "the file's content is not what was written (its sha256 differs)"
    return None


def verify(folder: Path, files: Sequence[FileInfo], hashed: bool = True, mend: str = MEND) -> None:
    """Raises, naming what is damaged, unless every file is what it must be."""
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter lock
        found = list(pool.map(lambda info: damage(folder, info, hashed), files))
    wrong = [(info.file, what) for info, what in zip(files, found, strict=True) if what]
    if wrong:
        file, what = wrong[0]
        others = f" (and {len(wrong) - 1} more: {', '.join(name for name, _ in wrong[1:9])})" if wrong[1:] else ""
        raise DamageError(folder / file, what + others, mend)


def digest(path: Path) -> str:
    """The sha256 of a file, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A name of its own for every attempt, so that two that write the same file cannot mix."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        yield beside
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """A rename survives a power cut only once its folder is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
