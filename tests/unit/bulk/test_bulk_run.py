"""A run over shards, from the request to the summary."""

import json
import shutil
from pathlib import Path

import pytest

from dragoman.bulk.bulk_run import BulkSummary, run_bulk
from dragoman.bulk.shard_worker import ShardOutcome
from dragoman.bundle import Export, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.bundle.writing import store_export
from dragoman.export.ctranslate2 import weights_file
from dragoman.io.progress import ignore_progress
from dragoman.translation.translate_request import TranslateRequest

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
NAMES = ["a.jsonl", "b.jsonl", "c.jsonl"]


@pytest.fixture
def shards(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(NAMES, 1):
        rows = [{"text": "ten old houses.", "id": place} for place in range(number)]
        (tmp_path / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "in" / "*.jsonl")


def bulk(model: Path, shards: str, out: Path, **options: object) -> TranslateRequest:
    return TranslateRequest(model, shards=shards, out=out, **options)


def run(request: TranslateRequest) -> tuple[BulkSummary, list[str]]:
    warnings: list[str] = []
    return run_bulk(request, ignore_progress, warnings.append), warnings


def store(folder: Path, kind: ExportStore) -> None:
    content = weights_file(open_bundle(folder), kind)
    store_export(folder, Export.unchecked(content, kind), content)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_shards_are_translated_once_and_again_only_when_something_is_wrong(
    model: Path, shards: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    request = bulk(model, shards, out, workers=2, threads=1)
    first, warnings = run(request)
    assert (len(first.done), first.kept, first.rows, first.failed, warnings) == (3, [], 6, [], [])
    whole = contents(out)
    assert set(whole) == {"bulk.json", *NAMES, *(f"{name}.manifest.json" for name in NAMES)}

    (out / "a.jsonl").write_bytes(whole["a.jsonl"][:-3])  # damaged
    (out / "b.jsonl.manifest.json").unlink()  # killed before its last word
    (out / ".b.jsonl.0123abcd.incomplete").touch()
    (out / ".lock.0-of-1").touch()
    stamp = (out / "c.jsonl").stat().st_mtime_ns
    second, warnings = run(request)
    assert {outcome.shard.name for outcome in second.done} == {"a.jsonl", "b.jsonl"}
    assert [manifest.output.file for manifest in second.kept] == ["c.jsonl"]
    assert len(warnings) == 1
    assert "a.jsonl is translated again: the translation has changed" in warnings[0]
    assert contents(out) == whole
    assert (out / "c.jsonl").stat().st_mtime_ns == stamp

    third, _ = run(request)
    assert (third.done, third.rows) == ([], 6)
    assert third.text() == "3 shards finished, 6 rows; 3 of them were finished before"


@pytest.mark.slow
def test_portions_together_give_what_one_run_gives(model: Path, shards: str, tmp_path: Path) -> None:
    for index in range(2):
        run(bulk(model, shards, tmp_path / "cut", workers=1, threads=1, shard_index=f"{index}/2"))
    run(bulk(model, shards, tmp_path / "whole", workers=1, threads=1))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_wrong_row_is_named_and_keeps_no_other_shard_from_being_finished(
    model: Path, shards: str, tmp_path: Path
) -> None:
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "two red dogs."}\n{"text": 3}\n')
    summary, warnings = run(bulk(model, shards, tmp_path / "out", workers=1, threads=1))
    assert {outcome.shard.name for outcome in summary.done} == {"a.jsonl", "c.jsonl"}
    wrong = f"{tmp_path / 'in' / 'b.jsonl'}, line 2: the field 'text' is 3: write a string or null"
    assert warnings == [wrong]
    assert summary.problems().startswith(
        f"1 shard could not be translated, for the reasons above: {tmp_path / 'in' / 'b.jsonl'}\n"
    )
    assert "must be text" not in summary.problems()
    assert summary.lost == []
    assert not (tmp_path / "out" / "b.jsonl").exists()


def test_other_models_and_options_are_refused_before_anything_is_done(
    model: Path, other_model: Path, shards: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(bulk(model, shards, out, shard_index="5/6"))  # a portion without shards: the folder is ours now
    before = contents(out)
    assert set(before) == {"bulk.json"}
    for changed, error in (
        (bulk(other_model, shards, out), "model [0-9a-f]{12} there and [0-9a-f]{12} here"),
        (bulk(model, shards, out, beam=2), "beam_size 3 there and 2 here"),
        (bulk(model, shards, out, into="german"), "into translation there and german here"),
        (bulk(model, shards, out, split=False), "split True there and False here"),
        (bulk(model, shards, out, compute="int8"), "compute float32 there and int8 here"),
    ):
        with pytest.raises(ValueError, match=error):
            run(changed)
    assert contents(out) == before


def test_an_export_that_comes_later_shuts_nobody_out_unless_it_is_the_one_in_use(
    model: Path, shards: str, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    for compute in ("float32", "int8"):
        run(bulk(copy, shards, tmp_path / compute, shard_index="5/6", compute=compute))
    store(copy, "int8")
    run(bulk(copy, shards, tmp_path / "float32", shard_index="5/6", compute="float32"))
    with pytest.raises(ValueError, match="store float32 there and int8 here"):
        run(bulk(copy, shards, tmp_path / "int8", shard_index="5/6", compute="int8"))


@pytest.mark.slow
def test_what_is_left_of_shards_that_are_gone_is_named(model: Path, shards: str, tmp_path: Path) -> None:
    run(bulk(model, shards, tmp_path / "out", workers=1, threads=1))
    (tmp_path / "in" / "b.jsonl").unlink()
    summary, _ = run(bulk(model, shards, tmp_path / "out", workers=1, threads=1, shard_index="0/2"))
    assert summary.text().endswith("\nalso in the folder, but not matched by --shards: b.jsonl")
    assert (tmp_path / "out" / "b.jsonl").is_file()


def test_what_cannot_be_is_refused_before_anything_is_written(model: Path, shards: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "in" / "d.csv").touch()
    for request, error in (
        (bulk(model, shards, out, shard_index="2/2"), "starts at 0"),
        (bulk(model, str(tmp_path / "in" / "*"), out), r"d\.csv: \.csv files are not supported"),
        (bulk(tmp_path / "in", shards, out), "in/manifest.json: the file is missing"),
    ):
        with pytest.raises(ValueError, match=error):
            run(request)
    with pytest.raises(ValueError, match="--into text is also the field to translate"):
        bulk(model, shards, out, into="text")
    assert not out.exists()


def test_a_model_without_an_export_says_why_torch_translates(shards: str, tmp_path: Path) -> None:
    _, warnings = run(bulk(GOLDEN, shards, tmp_path / "out", shard_index="5/6"))
    assert len(warnings) == 1
    assert warnings[0].startswith("using torch, which is slower than CTranslate2: this model has no export")
    record = json.loads((tmp_path / "out" / "bulk.json").read_text())["manifest"]
    assert record["settings"]["engine"] == "torch"


def test_a_summary_counts_and_names() -> None:
    outcomes = [
        ShardOutcome(Path("a"), 1500, 3000),
        ShardOutcome(Path("b"), wrong="b: bad"),
        ShardOutcome(Path("c"), wrong="c killed 3 workers", is_lost=True),
    ]
    summary = BulkSummary([], outcomes, 2.0)
    assert summary.text() == "1 shard finished, 1,500 rows; 3,000 sentences in 2.0 s: 1,500 a second"
    assert summary.problems().startswith("2 shards could not be translated, for the reasons above: b, c\nall others")
    assert [outcome.shard for outcome in summary.lost] == [Path("c")]
