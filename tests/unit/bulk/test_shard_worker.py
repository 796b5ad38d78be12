"""One shard, from its file to a finished translation."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import pytest

from dragoman.bulk import shard_worker as file
from dragoman.bulk.shard_manifest import BulkSettings, check_shard, load_manifest
from dragoman.bulk.shard_worker import BulkJob, ShardOutcome, ShardWorker

LINES = ["ten old houses.", "", "two red dogs. four green women.", "three tables."]


@pytest.fixture
def job(model: Path, tmp_path: Path, german_settings: Callable[[Path], BulkSettings]) -> BulkJob:
    (tmp_path / "out").mkdir()
    return BulkJob(model, tmp_path / "out", german_settings(model), threads=1)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_shard_is_translated_sentence_by_sentence_and_gets_its_manifest(job: BulkJob, shard: Path) -> None:
    reports: list[int] = []
    assert ShardWorker(job, reports.append)(shard) == ShardOutcome(shard, rows=4, sentences=4)
    rows = [json.loads(line) for line in (job.out / "a.jsonl").read_text().split("\n")[:-1]]
    assert [row["german"] for row in rows] == [
        "zehn alte Häuser.",
        "",
        "zwei rote Hunde. vier grüne Frauen.",
        rows[3]["german"],
    ]
    manifest = load_manifest(job.out / "a.jsonl")
    assert manifest is not None
    assert manifest.settings.engine == "ctranslate2"
    assert manifest.settings.engine_version == ctranslate2.__version__
    assert manifest.settings.search["beam_size"] == 3
    assert check_shard(shard, job.out).manifest == manifest
    assert names(job.out) == {"a.jsonl", "a.jsonl.manifest.json"}
    assert reports == sorted(reports)
    assert reports[-1] == 4


def test_sentences_that_are_kept_are_counted(job: BulkJob, shard: Path) -> None:
    shard.write_text(json.dumps({"text": "ab" * 500}) + "\n" + json.dumps({"text": LINES[0]}) + "\n")
    outcome = ShardWorker(job)(shard)
    assert outcome == ShardOutcome(shard, rows=2, sentences=2, untranslated=1)
    manifest = load_manifest(job.out / "a.jsonl")
    assert manifest is not None
    assert manifest.untranslated == 1
    assert json.loads((job.out / "a.jsonl").read_text().splitlines()[0])["german"] == "ab" * 500


def test_a_finished_shard_is_not_touched_again(job: BulkJob, shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ShardWorker(job)(shard)
    stamps = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    monkeypatch.setattr(file, "load_pipeline", lambda job: pytest.fail("the model is not needed"))
    assert ShardWorker(job)(shard) == first
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == stamps


def test_what_is_wrong_with_a_shard_is_its_outcome_and_nothing_is_left(job: BulkJob, shard: Path) -> None:
    with shard.open("a") as file:
        file.write('{"text": 7}\n')
    outcome = ShardWorker(job)(shard)
    assert outcome.wrong == f"{shard}, line 5: the field 'text' is 7: write a string or null"
    assert not outcome.is_lost
    assert names(job.out) == set()


def test_a_shard_that_three_have_died_at_is_not_begun_a_fourth_time(job: BulkJob, shard: Path) -> None:
    for number in range(3):
        assert not ShardWorker(job)(shard.with_name("other.txt")).is_lost
        (job.out / f".a.jsonl.0123456{number}.incomplete").touch()
    outcome = ShardWorker(job)(shard)
    assert (outcome.wrong, outcome.is_lost) == (f"{shard} killed 3 workers", True)
    (job.out / ".a.jsonl.01234561.incomplete").unlink()
    assert ShardWorker(job)(shard).rows == 4


def test_a_bug_is_reported_and_ends_no_other_shard(
    job: BulkJob, shard: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(job: BulkJob) -> None:
        raise RuntimeError("no position encodings are defined for positions >= 64")

    monkeypatch.setattr(file, "load_pipeline", broken)
    outcome = ShardWorker(job)(shard)
    assert outcome.wrong == f"{shard}: RuntimeError: no position encodings are defined for positions >= 64"
    assert outcome.is_lost
    assert "Traceback" in capfd.readouterr().err
    assert names(job.out) == set()


def test_a_file_that_cannot_be_written_is_reported(job: BulkJob, shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert ShardWorker(job)(shard).wrong == f"{shard}: [Errno 28] No space left on device"
    assert names(job.out) == set()


def test_a_shard_that_changes_while_it_is_read_is_not_finished(job: BulkJob, shard: Path) -> None:
    worker = ShardWorker(job, lambda rows: os.utime(shard, ns=(rows, rows)))
    assert "changed during translation" in (worker(shard).wrong or "")
    assert names(job.out) == set()


def test_another_model_in_the_same_place_is_refused(job: BulkJob, shard: Path, other_model: Path) -> None:
    moved = BulkJob(other_model, job.out, job.settings, 1)
    assert "has changed since this run began" in (ShardWorker(moved)(shard).wrong or "")


def test_the_bytes_depend_on_nothing_but_shard_and_settings(job: BulkJob, shard: Path, tmp_path: Path) -> None:
    shard.write_text("".join(json.dumps({"text": f"{line} {n}"}) + "\n" for n in range(60) for line in LINES))
    ShardWorker(job)(shard)
    (tmp_path / "again").mkdir()
    ShardWorker(BulkJob(job.model, tmp_path / "again", job.settings, threads=3))(shard)
    for name in ("a.jsonl", "a.jsonl.manifest.json"):
        assert (tmp_path / "again" / name).read_bytes() == (job.out / name).read_bytes()


def test_a_worker_can_be_sent_to_another_process_before_it_has_begun(job: BulkJob, shard: Path) -> None:
    worker = pickle.loads(pickle.dumps(ShardWorker(job)))
    assert worker(shard).rows == 4
