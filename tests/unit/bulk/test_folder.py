"""The folder of translations is ours alone, of one model, and nothing unfinished stays in it."""

from pathlib import Path

import pytest

from dragoman.bulk.find_shards import Portion
from dragoman.bulk.folder import RECORD, claim_folder, lock_folder, remove_unfinished
from dragoman.bulk.shard_manifest import BulkSettings, ShardManifest
from dragoman.io.durable import FileInfo
from dragoman.io.lock import locked

SETTINGS = BulkSettings(
    model="ab" * 32,
    dragoman="1.2.3",
    engine="ctranslate2",
    engine_version="4.8.4",
    compute="float32",
    search={},
    split=True,
    protect=False,
    column="text",
    into="translation",
)
OTHER = SETTINGS.model_copy(update={"model": "cd" * 32, "compute": "int8"})
SHARDS = [Path("in/a.txt"), Path("in/b.txt")]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_folder_says_from_the_beginning_what_its_shards_have_in_common(tmp_path: Path) -> None:
    claim_folder(tmp_path, SHARDS, SETTINGS)
    assert names(tmp_path) == {RECORD}
    before = (tmp_path / RECORD).stat().st_ino
    claim_folder(tmp_path, SHARDS, SETTINGS)
    assert (tmp_path / RECORD).stat().st_ino == before
    with pytest.raises(
        ValueError, match=r"model abababababab there and cdcdcdcdcdcd here; compute float32 there and int8"
    ):
        claim_folder(tmp_path, SHARDS, OTHER)


def test_the_manifest_of_a_single_shard_is_enough_to_refuse_a_mixture(tmp_path: Path) -> None:
    info = FileInfo(file="b.txt", sha256="0" * 64, num_bytes=1)
    ShardManifest(input=info, output=info, rows=1, nulls=0, sentences=1, settings=OTHER).save(tmp_path)
    with pytest.raises(ValueError, match=r"other translations \(b\.txt\.manifest\.json: model cdcd.* there"):
        claim_folder(tmp_path, SHARDS, SETTINGS)
    assert RECORD not in names(tmp_path)


def test_a_file_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("precious")
    with pytest.raises(ValueError, match=r"b\.txt exists and was not written by a bulk run"):
        claim_folder(tmp_path, SHARDS, SETTINGS)
    assert names(tmp_path) == {"b.txt"}
    claim_folder(tmp_path, SHARDS[:1], SETTINGS)  # it is in nobody's way
    claim_folder(tmp_path, SHARDS, SETTINGS)  # now the folder is ours, and this may be what a killed run has left


def test_a_damaged_record_is_reported_with_its_fix(tmp_path: Path) -> None:
    claim_folder(tmp_path, SHARDS, SETTINGS)
    content = (tmp_path / RECORD).read_bytes()
    (tmp_path / RECORD).write_bytes(content.replace(b"abab", b"abac", 1))
    with pytest.raises(ValueError, match=r"bulk\.json: .*sha256 differs.*remove the file"):
        claim_folder(tmp_path, SHARDS, SETTINGS)


def test_only_our_own_unfinished_files_are_removed(tmp_path: Path) -> None:
    ours = [".a.txt.0123abcd.incomplete", ".b.txt.manifest.json.0123abcd.incomplete", ".bulk.json.0123abcd.incomplete"]
    others = [".c.txt.0123abcd.incomplete", ".a.txt.0123abcd", "a.txt.incomplete", ".a.txt.012.incomplete", "a.txt"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path, SHARDS)
    assert names(tmp_path) == set(others)


def test_one_run_a_portion_and_none_that_is_cut_otherwise(tmp_path: Path) -> None:
    out = tmp_path / "some" / "folder"
    with lock_folder(out, Portion(1, 4)):
        with (
            pytest.raises(ValueError, match="another run is translating these shards"),
            lock_folder(out, Portion(1, 4)),
        ):
            pass
        with lock_folder(out, Portion(2, 4)):
            pass
        for other in (Portion(0, 1), Portion(1, 5)):
            with (
                pytest.raises(ValueError, match=r"another run with --shard-index 1/4 is writing"),
                lock_folder(out, other),
            ):
                pass
    with lock_folder(out, Portion(0, 1)):
        pass
    assert names(out) == set()


def test_the_lock_of_a_run_that_was_killed_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / ".lock.3-of-7").touch()
    with lock_folder(tmp_path, Portion(0, 1)):
        assert names(tmp_path) == {".lock.0-of-1"}
    (tmp_path / ".lock.0-of-1").touch()
    with (
        lock_folder(tmp_path, Portion(0, 1)),
        pytest.raises(ValueError, match="held"),
        locked(tmp_path / ".lock.0-of-1", "held"),
    ):
        pass
    assert names(tmp_path) == set()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(ValueError, match="out is a file: give a folder"), lock_folder(tmp_path / "out", Portion(0, 1)):
        pass
