"""Lock files: one process at a time holds a lock; the system releases the lock of a process that dies."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

if sys.platform != "win32":  # there, nothing is locked
    import fcntl

_ATTEMPTS: Final = 5
_SECONDS_BETWEEN_ATTEMPTS: Final = 0.02


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock within the block; raise ValueError with the message `busy` if another process holds the lock.

    The lock file is removed afterwards.
    """
    while True:
        with path.open("a") as file:
            if not _lock_patiently(file):
                raise ValueError(busy)
            if not _is_at(path, file):  # the last holder removed it just before we got it: it keeps nobody out
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def is_locked(path: Path) -> bool:
    """Return True if another process holds the lock; the check writes nothing."""
    try:
        with path.open("r+") as file:
            return not _lock(file, is_shared=True)
    except FileNotFoundError:
        return False


def _lock_patiently(file: IO[str]) -> bool:
    """Lock a file, and try again if that fails: `is_locked` in another process holds a lock for an instant."""
    for _ in range(_ATTEMPTS - 1):
        if _lock(file):
            return True
        time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
    return _lock(file)


def _lock(file: IO[str], is_shared: bool = False) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
