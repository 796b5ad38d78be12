"""Translated files, kept in memory for their download for some minutes."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from dragoman.serving.config import Limits
from dragoman.serving.errors import UnknownModelError

_UNSAFE: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 100


class StoredFile(NamedTuple):
    """A file that can be downloaded."""

    name: str
    """The name that a browser saves it under."""
    content: bytes
    expires_at: float


class FileStore:
    """The translated files of a service; the oldest give way to new ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: dict[str, StoredFile] = {}

    def put(self, name: str, content: bytes, limits: Limits) -> str:
        """Store a file and return the name of its download, which nobody can guess."""
        self._drop_expired()
        safe = _UNSAFE.sub("_", name)[-_LONGEST_NAME:]
        path = f"{uuid.uuid4()}.{safe}"
        self._files[path] = StoredFile(safe, content, self._clock() + limits.stored_file_seconds)
        size = sum(len(one.content) for one in self._files.values())
        while size > limits.stored_file_bytes and len(self._files) > 1:
            size -= len(self._files.pop(next(iter(self._files))).content)
        return path

    def find(self, path: str) -> StoredFile:
        """Return the file of a download; raise UnknownModelError if there is none any more."""
        self._drop_expired()
        if path not in self._files:
            raise UnknownModelError("no such file: translate it again")
        return self._files[path]

    def _drop_expired(self) -> None:
        now = self._clock()
        self._files = {path: one for path, one in self._files.items() if one.expires_at > now}
