"""A file is its old self or its new self, whatever fails and wherever."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.io.durable import (
    DamageError,
    FileInfo,
    Sink,
    find_damage,
    hash_file,
    write_durably,
    write_folder_durably,
)

OLD, NEW = b"what was there", b"what comes now"


def put(sink: Sink) -> None:
    sink.write(NEW[:5])
    sink.write(NEW[5:])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Fault:
    """Lets so many calls through, then fails as a full disk does. Counts what it saw."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.calls: list[str] = []

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) > self.allowed:
                raise OSError(28, "No space left on device")
            return function(*arguments, **options)

        return call


def faulty(monkeypatch: pytest.MonkeyPatch, allowed: int) -> Fault:
    """Every write, fsync and rename goes through one counter."""
    fault = Fault(allowed)
    monkeypatch.setattr("dragoman.io.durable.Sink.write", fault.around("write", _write))
    monkeypatch.setattr(os, "fsync", fault.around("fsync", os.fsync))
    monkeypatch.setattr(Path, "replace", fault.around("rename", Path.replace))
    return fault


def _write(sink: Any, data: bytes) -> int:
    sink.sha256.update(data)
    sink.num_bytes += len(data)
    return int(sink.file.write(data))


def test_the_file_is_there_with_its_hash_and_size_and_nothing_beside_it(tmp_path: Path) -> None:
    info = write_durably(tmp_path / "a", put)
    assert (tmp_path / "a").read_bytes() == NEW
    assert info == FileInfo(file="a", sha256=hashlib.sha256(NEW).hexdigest(), num_bytes=len(NEW))
    assert info.sha256 == hash_file(tmp_path / "a")
    assert names(tmp_path) == ["a"]


def test_everything_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = faulty(monkeypatch, allowed=99)
    write_durably(tmp_path / "a", put)
    assert fault.calls == ["write", "write", "fsync", "rename", "fsync"]  # the last one is the folder's


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("allowed", range(5))
def test_a_fault_at_any_point_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, existed: bool
) -> None:
    path = tmp_path / "a"
    if existed:
        path.write_bytes(OLD)
    with monkeypatch.context() as patch:
        fault = faulty(patch, allowed)
        with pytest.raises(OSError, match="No space left"):
            write_durably(path, put)
    assert len(fault.calls) == allowed + 1
    renamed = allowed == 4
    expected = NEW if renamed else OLD if existed else None
    assert (path.read_bytes() if path.exists() else None) == expected
    assert names(tmp_path) == (["a"] if expected else [])
    write_durably(path, put)
    assert path.read_bytes() == NEW


def test_a_run_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    child = os.fork()
    if child == 0:

        def die(sink: Sink) -> None:
            sink.write(NEW[:5])
            sink.flush()
            os.kill(os.getpid(), 9)

        write_durably(path, die)
    assert os.waitpid(child, 0)[1] == 9
    assert path.read_bytes() == OLD
    left = [name for name in names(tmp_path) if name != "a"]
    assert len(left) == 1
    assert left[0].startswith(".a.")
    assert left[0].endswith(".incomplete")


def test_others_may_read_the_file_as_the_umask_says(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_durably(tmp_path / "a", put)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(b""), "0 bytes instead of 14"),
        (lambda path: path.write_bytes(NEW[:-1]), "13 bytes instead of 14"),
        (lambda path: path.write_bytes(NEW[:-1] + b"v"), "sha256 differs"),
        (lambda path: (path.unlink(), path.mkdir()), "missing"),
    ],
    ids=["deleted", "emptied", "cut", "changed", "a folder instead"],
)
def test_damage_is_named(tmp_path: Path, change: Callable[[Path], object], wrong: str) -> None:
    info = write_durably(tmp_path / "a", put)
    assert find_damage(tmp_path, info) is None
    change(tmp_path / "a")
    found = find_damage(tmp_path, info)
    assert found is not None
    assert wrong in found


def test_without_hashing_a_change_that_keeps_the_size_goes_unseen(tmp_path: Path) -> None:
    info = write_durably(tmp_path / "a", put)
    (tmp_path / "a").write_bytes(NEW[::-1])
    assert find_damage(tmp_path, info, hashed=False) is None
    assert find_damage(tmp_path, info) is not None


def test_the_error_names_the_file_and_the_fix() -> None:
    error = DamageError(Path("there/a"), "it is gone")
    assert isinstance(error, ValueError)
    assert str(error) == "there/a: it is gone; run dragoman prepare again, which rewrites only damaged files"


@pytest.mark.parametrize("file", ["../a", "b/a", "/a", "..", ".a", "", "b\\a"])
def test_a_name_that_leads_out_of_the_folder_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match="file"):
        FileInfo(file=file, sha256="0" * 64, num_bytes=1)


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_has_its_name_when_it_is_complete(exists: bool, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    if exists:
        out.mkdir(parents=True)
    with write_folder_durably(out) as folder:
        (folder / "a").write_bytes(NEW)
        assert not out.exists() or not names(out)
    assert names(tmp_path / "new") == ["out"]
    assert (out / "a").read_bytes() == NEW


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with write_folder_durably(tmp_path / "out") as folder:
            (folder / "a").write_bytes(NEW)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert names(tmp_path) == []


def test_a_used_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    for used in (tmp_path, tmp_path / "a"):
        with pytest.raises(ValueError, match="not an empty folder"), write_folder_durably(used):
            raise AssertionError
    assert names(tmp_path) == ["a"]
