"""One shard, from its file to a finished translation."""

import json
import os
import pickle
from pathlib import Path

import ctranslate2
import pytest

from dragoman.bundle import open_bundle
from dragoman.decoding.bulk import work
from dragoman.decoding.bulk.loading import choose
from dragoman.decoding.bulk.manifest import load, standing
from dragoman.decoding.bulk.rows import Columns
from dragoman.decoding.bulk.settings import Job
from dragoman.decoding.bulk.work import Outcome, ShardWorker

LINES = ["ten old houses.", "", "two red dogs. four green women.", "three tables."]


@pytest.fixture
def job(model: Path, tmp_path: Path) -> Job:
    (tmp_path / "out").mkdir()
    return Job(model, tmp_path / "out", choose(open_bundle(model), Columns("text", "german")), threads=1)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_shard_is_translated_sentence_by_sentence_and_gets_its_manifest(job: Job, shard: Path) -> None:
    told: list[int] = []
    assert ShardWorker(job, told.append)(shard) == Outcome(shard, rows=4, sentences=4)
    rows = [json.loads(line) for line in (job.out / "a.jsonl").read_text().split("\n")[:-1]]
    assert [row["german"] for row in rows] == [
        "zehn alte Häuser.",
        "",
        "zwei rote Hunde. vier grüne Frauen.",
        rows[3]["german"],
    ]
    manifest = load(job.out / "a.jsonl")
    assert manifest is not None
    assert manifest.settings.engine == "ctranslate2"
    assert manifest.settings.engine_version == ctranslate2.__version__
    assert manifest.settings.search["beam_size"] == 3
    assert standing(shard, job.out).manifest == manifest
    assert names(job.out) == {"a.jsonl", "a.jsonl.manifest.json"}
    assert told == [1, 2, 3, 4]


def test_a_finished_shard_is_not_touched_again(job: Job, shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ShardWorker(job)(shard)
    stamps = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    monkeypatch.setattr(work, "load", lambda job: pytest.fail("the model is not needed"))
    assert ShardWorker(job)(shard) == first
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == stamps


def test_what_is_wrong_with_a_shard_is_its_outcome_and_nothing_is_left(job: Job, shard: Path) -> None:
    with shard.open("a") as file:
        file.write('{"text": 7}\n')
    outcome = ShardWorker(job)(shard)
    assert outcome.wrong == f"{shard}, line 5: 'text' must be text or null, not 7"
    assert not outcome.lost
    assert names(job.out) == set()


def test_a_shard_that_three_have_died_at_is_not_begun_a_fourth_time(job: Job, shard: Path) -> None:
    for number in range(3):
        assert not ShardWorker(job)(shard.with_name("other.txt")).lost
        (job.out / f".a.jsonl.0123456{number}.incomplete").touch()
    outcome = ShardWorker(job)(shard)
    assert (outcome.wrong, outcome.lost) == (f"{shard}: 3 workers died at it", True)
    (job.out / ".a.jsonl.01234561.incomplete").unlink()
    assert ShardWorker(job)(shard).rows == 4


def test_a_mistake_of_a_program_is_told_and_ends_no_other_shard(
    job: Job, shard: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(job: Job) -> None:
        raise RuntimeError("no position encodings are defined for positions >= 64")

    monkeypatch.setattr(work, "load", broken)
    outcome = ShardWorker(job)(shard)
    assert outcome.wrong == f"{shard}: RuntimeError: no position encodings are defined for positions >= 64"
    assert outcome.lost
    assert "Traceback" in capfd.readouterr().err
    assert names(job.out) == set()


def test_a_file_that_cannot_be_written_is_told(job: Job, shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert ShardWorker(job)(shard).wrong == f"{shard}: [Errno 28] No space left on device"
    assert names(job.out) == set()


def test_a_shard_that_changes_while_it_is_read_is_not_finished(job: Job, shard: Path) -> None:
    worker = ShardWorker(job, lambda rows: os.utime(shard, ns=(rows, rows)))
    assert "was changed while it was translated" in (worker(shard).wrong or "")
    assert names(job.out) == set()


def test_another_model_in_the_same_place_is_refused(job: Job, shard: Path, other_model: Path) -> None:
    moved = Job(other_model, job.out, job.settings, 1)
    assert "has become another model" in (ShardWorker(moved)(shard).wrong or "")


def test_the_bytes_depend_on_nothing_but_shard_and_settings(job: Job, shard: Path, tmp_path: Path) -> None:
    shard.write_text("".join(json.dumps({"text": f"{line} {n}"}) + "\n" for n in range(60) for line in LINES))
    ShardWorker(job)(shard)
    (tmp_path / "again").mkdir()
    ShardWorker(Job(job.model, tmp_path / "again", job.settings, threads=3))(shard)
    for name in ("a.jsonl", "a.jsonl.manifest.json"):
        assert (tmp_path / "again" / name).read_bytes() == (job.out / name).read_bytes()


def test_a_worker_can_be_sent_to_another_process_before_it_has_begun(job: Job, shard: Path) -> None:
    worker = pickle.loads(pickle.dumps(ShardWorker(job)))
    assert worker(shard).rows == 4
