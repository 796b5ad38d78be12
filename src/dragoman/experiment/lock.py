"""One training in a folder at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dragoman.data.lock import is_locked, locked

LOCK: Final = ".lock"


def refuse_running(folder: Path) -> None:
    """Raise if a training is running there; nothing is written to find out."""
    if is_locked(folder / LOCK):
        raise ValueError(_busy(folder))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep others from training there meanwhile. The folder is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, _busy(folder)):
        yield


def _busy(folder: Path) -> str:
    return f"a training is running in {folder}: wait for it, or give another --out"
