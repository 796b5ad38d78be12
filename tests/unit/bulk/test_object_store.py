"""Shards in and out of a local S3 server."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.bulk.bulk_run import run_bulk
from dragoman.bulk.folder import RECORD, claim_folder
from dragoman.bulk.shard_manifest import BulkSettings, check_shard
from dragoman.bulk.shard_worker import BulkJob, ShardWorker
from dragoman.io.progress import ignore_progress
from dragoman.io.remote_path import RemotePath
from dragoman.translation.translate_request import TranslateRequest

sys.path.append(str(Path(__file__).parents[2] / "chaos"))
from s3_server import s3_server

ROW = '{"text": "two red dogs.", "id": 1}\n'


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server("bucket") as variables:
        yield variables


@pytest.fixture
def store(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    """A folder of the server that no other test has."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return RemotePath("s3://bucket") / tmp_path.name


def names(folder: RemotePath) -> set[str]:
    return {path.name for path in folder.iterdir()}


def worker(model: Path, out: RemotePath, settings: BulkSettings) -> ShardWorker:
    return ShardWorker(BulkJob(model, out, settings, 1))


def test_a_shard_comes_out_with_the_bytes_of_a_local_run(
    model: Path, store: RemotePath, tmp_path: Path, german_settings: Callable[[Path], BulkSettings]
) -> None:
    settings, shard, out = german_settings(model), store / "in" / "a.jsonl", store / "out"
    shard.write_bytes(ROW.encode())
    (tmp_path / "a.jsonl").write_text(ROW)
    outcome = worker(model, out, settings)(shard)
    assert (outcome.wrong, outcome.rows) == (None, 1)
    assert json.loads((out / "a.jsonl").read_bytes())["german"] == "zwei rote Hunde."
    local = tmp_path / "out"
    local.mkdir()
    ShardWorker(BulkJob(model, local, settings, 1))(tmp_path / "a.jsonl")
    assert names(out) == {path.name for path in local.iterdir()} == {"a.jsonl", "a.jsonl.manifest.json"}
    for name in names(out):
        assert (out / name).read_bytes() == (local / name).read_bytes()


def test_a_shard_is_finished_only_by_its_manifest_and_only_as_long_as_both_files_stay(
    model: Path, store: RemotePath, german_settings: Callable[[Path], BulkSettings]
) -> None:
    shard, out = store / "in" / "a.jsonl", store / "out"
    shard.write_bytes(ROW.encode())
    worker(model, out, german_settings(model))(shard)
    assert check_shard(shard, out).manifest
    whole = (out / "a.jsonl").read_bytes()
    (out / "a.jsonl").write_bytes(whole[:-3])
    assert "bytes instead of" in str(check_shard(shard, out).wrong)
    (out / "a.jsonl").write_bytes(whole)
    shard.write_bytes(ROW.replace("two", "ten").encode())
    assert check_shard(shard, out).wrong == "the shard has changed since it was translated"
    (out / "a.jsonl.manifest.json").unlink()
    assert check_shard(shard, out) == (None, None)


def test_a_wrong_row_is_named_by_its_url_and_leaves_nothing(
    model: Path, store: RemotePath, german_settings: Callable[[Path], BulkSettings]
) -> None:
    shard, out = store / "in" / "a.jsonl", store / "out"
    shard.write_bytes(b'{"text": 3}\n')
    outcome = worker(model, out, german_settings(model))(shard)
    assert outcome.wrong == f"{shard}, line 1: the field 'text' is 3: write a string or null"
    assert names(out) == set()
    assert not [path for path in Path(tempfile.gettempdir()).glob("dragoman-shard-*") if (path / shard.name).exists()]


def test_a_store_of_another_run_is_refused(
    model: Path, other_model: Path, store: RemotePath, german_settings: Callable[[Path], BulkSettings]
) -> None:
    shards, out = [store / "in" / "a.jsonl"], store / "out"
    claim_folder(out, shards, german_settings(model))
    claim_folder(out, shards, german_settings(model))
    assert names(out) == {RECORD}
    with pytest.raises(ValueError, match="holds other translations"):
        claim_folder(out, shards, german_settings(other_model))
    (store / "theirs" / "a.jsonl").write_bytes(b"precious")
    with pytest.raises(ValueError, match="was not written by a bulk run"):
        claim_folder(store / "theirs", shards, german_settings(model))


def test_errors_of_the_store_name_the_url(model: Path, store: RemotePath) -> None:
    shard = store / "in" / "a.jsonl"
    shard.write_bytes(ROW.encode())

    def run(shards: str, out: str) -> None:
        run_bulk(TranslateRequest(model, shards=shards, out=RemotePath(out)), ignore_progress, print)

    with pytest.raises(FileNotFoundError, match=r"s3://missing/out/bulk\.json: The specified bucket does not exist"):
        run(str(shard), "s3://missing/out")
    with pytest.raises(ValueError, match="matches no file"):
        run(str(store / "in" / "*.txt"), str(store / "out"))
    with pytest.raises(ValueError, match="is the folder of the shards"):
        run(str(shard), f"{store}/in/")


@pytest.mark.slow
def test_a_run_goes_on_where_the_last_one_stopped(model: Path, store: RemotePath) -> None:
    out = store / "out"
    for name in ("a.jsonl", "b.jsonl"):
        (store / "in" / name).write_bytes(ROW.encode())
    request = TranslateRequest(model, shards=str(store / "in" / "*"), out=out, workers=1, threads=1)
    first = run_bulk(request, ignore_progress, print)
    assert (len(first.done), first.failed) == (2, [])
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "a.jsonl.manifest.json").unlink()  # killed before its last word
    (out / ".a.jsonl.0123abcd.incomplete").write_bytes(b"")
    second = run_bulk(request, ignore_progress, print)
    assert [outcome.shard.name for outcome in second.done] == ["a.jsonl"]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
