"""Files in object stores, by fsspec URL, with the methods of pathlib.Path that bulk translation needs.

Not universal_pathlib: a model runs without fsspec, so a type of these paths must not import it.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][\w+.:-]*)://.*", re.DOTALL)
_LOCAL: Final = ("file", "local")


class RemoteStatus(NamedTuple):
    """The status of a remote file, with the field of os.stat_result that stores have."""

    st_size: int


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or folder in an object store. Nothing is cached: each method asks the store."""

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.url).suffix

    @property
    def parent(self) -> "RemotePath":
        return RemotePath(self.url.rstrip("/").rpartition("/")[0])

    def with_name(self, name: str) -> "RemotePath":
        return self.parent / name

    def absolute(self) -> "RemotePath":
        return self

    def resolve(self) -> "RemotePath":
        return RemotePath(self.url.rstrip("/"))

    def is_file(self) -> bool:
        with self._open_store() as (store, path):
            try:
                return bool(store.info(path)["type"] == "file")
            except FileNotFoundError:
                return False

    def exists(self) -> bool:
        """Return True if there is such a file. A folder of an object store exists by its files only."""
        return self.is_file()

    def stat(self) -> RemoteStatus:
        with self._open_store() as (store, path):
            return RemoteStatus(int(store.size(path)))

    def iterdir(self) -> Iterator["RemotePath"]:
        """Yield the files of a folder; an absent folder has none."""
        with self._open_store() as (store, path):
            try:
                entries = store.ls(path, detail=True)
            except FileNotFoundError:
                entries = []
        yield from (self / PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "file")

    def glob(self) -> list["RemotePath"]:
        """Return the files that match the URL as a pattern."""
        with self._open_store() as (store, path):
            found = store.glob(path, detail=True)
            return [RemotePath(store.unstrip_protocol(name)) for name, at in found.items() if at["type"] == "file"]

    @contextlib.contextmanager
    def open(self, mode: str = "rb") -> Iterator[io.BufferedIOBase]:
        """Open the file for reading."""
        assert mode == "rb"
        with self._open_store() as (store, path), store.open(path, mode) as file:
            yield file

    def read_bytes(self) -> bytes:
        with self._open_store() as (store, path):
            return bytes(store.cat_file(path))

    def write_bytes(self, content: bytes) -> None:
        with self._open_store() as (store, path):
            store.pipe_file(path, content)

    def upload(self, file: Path) -> None:
        """Write the content of a local file: readers see the old content or all of the new."""
        with self._open_store() as (store, path):
            store.put_file(str(file), path)

    def download(self, file: Path) -> None:
        """Copy the content to a local file."""
        with self._open_store() as (store, path):
            store.get_file(path, str(file))

    def unlink(self, missing_ok: bool = False) -> None:
        with self._open_store() as (store, path):
            if not missing_ok or store.exists(path):
                store.rm_file(path)

    @contextlib.contextmanager
    def _open_store(self) -> Iterator[tuple[Any, str]]:
        """Yield fsspec's file system and the path in it; errors of all stores become OSError or ValueError."""
        store, path = _find_store(self.url)
        store.invalidate_cache()  # another process may have written since the last listing
        try:
            yield store, path
        except (FileNotFoundError, FileExistsError, PermissionError) as error:
            raise type(error)(f"{self.url}: {error or type(error).__name__}") from error
        except Exception as error:  # each store has its own errors, such as botocore's
            raise OSError(f"{self.url}: {type(error).__name__}: {error}") from error


AnyPath = Path | RemotePath
"""A local file or folder, or one in an object store."""


def parse_address(address: str) -> AnyPath:
    """Return the path of a file name or URL; raise ValueError for an unknown kind of URL."""
    match = _URL.fullmatch(address)
    if match is None:
        return Path(address)
    if match["scheme"] in _LOCAL:
        return Path(address.partition("://")[2])
    if "::" in address:
        raise ValueError(f"{address}: chained URLs are not supported: give the URL of a store")
    _find_store(address)
    return RemotePath(address)


def _find_store(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path in it."""
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise ValueError(f"{url}: URLs need packages that are not installed: {_install(scheme)}") from None
    try:
        store, path = url_to_fs(url)
    except ImportError:
        raise ValueError(f"{url}: {scheme}:// needs a package that is not installed: {_install(scheme)}") from None
    except ValueError as error:
        raise ValueError(f"{url}: not an address that can be opened ({error}): give a local path or a URL") from None
    return store, path


def _install(scheme: str) -> str:
    if scheme in ("s3", "s3a"):
        return "pip install 'dragoman[s3]'"
    return f"install fsspec and its package for {scheme}://"
