"""One training in a folder at a time: a file that is locked while it lasts. The system unlocks it for whoever dies."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

if sys.platform != "win32":  # there, nothing is locked
    import fcntl

LOCK: Final = ".lock"


def refuse_running(folder: Path) -> None:
    """Raise if a training is running there; nothing is written to find out."""
    with suppress(FileNotFoundError), (folder / LOCK).open("r+") as file:
        _lock(file, folder)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep others from training there meanwhile. The folder is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        with path.open("a") as file:
            _lock(file, folder)
            if not _is_at(path, file):  # who had it removed it just before it came to us: it keeps nobody out
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _lock(file: IO[str], folder: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"a training is running in {folder}: wait for it, or give another --out") from None


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
