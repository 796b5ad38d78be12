"""Local copies of files in object stores: a shard is downloaded, translated locally and uploaded when it is complete.

A store shows an upload only when it is complete, so nothing is renamed there.
"""

import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dragoman.io.durable import UNFINISHED, FileInfo, Sink, write_durably
from dragoman.io.lock import is_locked, locked
from dragoman.io.remote_path import AnyPath

_PREFIX: Final = "dragoman-shard-"
_LOCK: Final = "lock"
_OLD_S: Final = 60.0
"""Age of a folder that may be removed: a younger one may not be locked yet."""


@contextmanager
def copy_locally(path: AnyPath) -> Iterator[Path]:
    """Yield a local file, or a local copy of a remote file; a ValueError of the block names the remote file."""
    if isinstance(path, Path):
        yield path
        return
    with staging_folder() as folder:
        copy = folder / path.name
        path.download(copy)
        try:
            yield copy
        except ValueError as error:
            raise ValueError(str(error).replace(str(copy), str(path))) from error


def write_output(path: AnyPath, content: bytes | Callable[[Sink], object]) -> FileInfo:
    """Write a local file as `write_durably` does, or a remote file by one upload of its complete content."""
    if isinstance(path, Path):
        return write_durably(path, content)
    with staging_folder() as folder:
        info = write_durably(folder / path.name, content)
        path.upload(folder / path.name)
    return info


@contextmanager
def marked_attempt(output: AnyPath) -> Iterator[None]:
    """Keep an empty file beside a remote output in the block: it stays if the worker dies, as an unfinished file does.

    Beside a local output, `write_durably` has such a file.
    """
    if isinstance(output, Path):
        yield
        return
    mark = output.with_name(f".{output.name}.{secrets.token_hex(4)}{UNFINISHED}")
    mark.write_bytes(b"")
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


@contextmanager
def staging_folder() -> Iterator[Path]:
    """Yield a temporary local folder. Those of killed processes are removed first."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user
            if time.time() - old.stat().st_mtime > _OLD_S and not is_locked(old / _LOCK):
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with locked(folder / _LOCK, f"{folder} is in use"):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
