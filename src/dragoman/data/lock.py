"""One at a time: a file that is locked while something lasts. The system unlocks it for whoever dies."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform != "win32":  # there, nothing is locked
    import fcntl


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock meanwhile; a ValueError that says `busy` if another has it. The file goes when it is let go."""
    while True:
        with path.open("a") as file:
            if not _lock(file):
                raise ValueError(busy)
            if not _is_at(path, file):  # who had it removed it just before it came to us: it keeps nobody out
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def is_locked(path: Path) -> bool:
    """Whether another has it; nothing is written to find out."""
    try:
        with path.open("r+") as file:
            return not _lock(file)
    except FileNotFoundError:
        return False


def _lock(file: IO[str]) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
