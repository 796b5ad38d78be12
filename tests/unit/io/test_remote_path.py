"""Files in object stores, with the methods of local paths."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from dragoman.io.remote_path import RemotePath, parse_address


@pytest.fixture
def folder() -> Iterator[RemotePath]:
    yield RemotePath("memory://bucket/in")
    fsspec.filesystem("memory").store.clear()


def test_a_remote_file_is_written_read_and_removed(folder: RemotePath, tmp_path: Path) -> None:
    file = folder / "a.txt"
    assert (file.name, file.suffix, file.parent, str(file)) == ("a.txt", ".txt", folder, "memory://bucket/in/a.txt")
    assert not file.exists()
    file.write_bytes(b"one\n")
    assert (file.is_file(), file.stat().st_size, file.read_bytes()) == (True, 4, b"one\n")
    (tmp_path / "other").write_bytes(b"another\n")
    file.upload(tmp_path / "other")
    with file.open() as stream:
        assert stream.read() == b"another\n"
    file.download(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"another\n"
    file.unlink()
    assert not file.is_file()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError, match=r"memory://bucket/in/a\.txt"):
        file.read_bytes()


def test_a_folder_lists_its_files_and_an_absent_one_has_none(folder: RemotePath) -> None:
    for name in ("b.txt", "a.txt", "c.jsonl", "deeper/d.txt"):
        (folder / name).write_bytes(b"")
    assert {path.name for path in folder.iterdir()} == {"a.txt", "b.txt", "c.jsonl"}
    assert {path.name for path in (folder / "*.txt").glob()} == {"a.txt", "b.txt"}
    assert {path.name for path in (folder / "**" / "*.txt").glob()} == {"a.txt", "b.txt", "d.txt"}
    assert list((folder / "nothing").iterdir()) == []
    assert not (folder / "deeper").is_file()


def test_a_path_goes_to_another_process(folder: RemotePath) -> None:
    assert pickle.loads(pickle.dumps(folder)) == folder


@pytest.mark.parametrize("address", ["in/a.txt", "/in/a.txt", "a:b", "C:\\a.txt"])
def test_what_is_no_url_is_a_local_path(address: str) -> None:
    assert parse_address(address) == Path(address)


def test_a_file_url_is_a_local_path() -> None:
    assert parse_address("file:///in/a.txt") == Path("/in/a.txt")


@pytest.mark.parametrize(
    ("address", "fix"),
    [
        ("carrier-pigeon://bucket/a", "Protocol not known"),
        ("abfs://bucket/a", "install fsspec and its package for abfs://"),
        ("simplecache::s3://bucket/a", "chained URLs are not supported"),
        ("s3://bucket/a.zip::zip://b", "chained URLs are not supported"),
    ],
)
def test_an_address_that_cannot_be_opened_is_refused(address: str, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        parse_address(address)
