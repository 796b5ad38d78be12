"""The state of a run folder by its files alone: what it holds, and whether a process trains in it.

Imports neither torch nor pyarrow: the studio shows runs without the packages for training.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from dragoman.experiment.findings import FINDINGS
from dragoman.experiment.log import LOG
from dragoman.io.lock import is_locked, locked
from dragoman.training.config import CHECKPOINTS

RECIPE: Final = "recipe.yaml"
PREPARED: Final = "prepared"
BUNDLE: Final = "bundle"
BEST: Final = "best"
"""A bundle with the best weights so far, while the run is not finished."""
REQUEST: Final = "request.json"
"""The options of a run whose recipe the autopilot chose; compared when the run is resumed."""

_LOCK: Final = ".lock"


def has_checkpoint(folder: Path) -> bool:
    """Return True if there is a checkpoint to resume from. A finished run has no checkpoints."""
    return any(_checkpoints(folder))


def is_finished(folder: Path) -> bool:
    """Return True if the folder holds a bundle and no checkpoint."""
    return (folder / BUNDLE).exists() and not has_checkpoint(folder)


def is_run_folder(folder: Path) -> bool:
    """Return True if the folder is empty or holds a run; a recipe alone is the beginning of a run."""
    names = {path.name for path in folder.iterdir()}
    return not names or bool(names & {RECIPE, PREPARED, REQUEST, LOG, CHECKPOINTS, FINDINGS, _LOCK})


def has_own_recipe(folder: Path) -> bool:
    """Return True if the folder has a recipe that no run in it has written."""
    return (folder / RECIPE).is_file() and not any((folder / name).exists() for name in (PREPARED, REQUEST))


def newest_update(folder: Path) -> int:
    """Return the update number of the newest checkpoint."""
    return max(int(path.name.removeprefix("update-")) for path in _checkpoints(folder))


def _checkpoints(folder: Path) -> Iterator[Path]:
    return (folder / CHECKPOINTS).glob("update-*")


def is_running(folder: Path) -> bool:
    """Return True if a process is training in the folder."""
    return is_locked(folder / _LOCK)


def check_not_running(folder: Path) -> None:
    """Raise ValueError if another process is training in the folder."""
    if is_running(folder):
        raise ValueError(_running(folder))


def lock_folder(folder: Path) -> AbstractContextManager[None]:
    """Create the folder if needed, and return a context manager that locks the folder against other runs."""
    folder.mkdir(parents=True, exist_ok=True)
    return locked(folder / _LOCK, _running(folder))


def _running(folder: Path) -> str:
    return f"another training is running in {folder}: wait until it ends, or give another --out"
