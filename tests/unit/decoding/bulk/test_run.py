"""A run over shards, from the request to the summary."""

import json
import shutil
from pathlib import Path

import pytest

from dragoman.bundle import Export, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.bundle.writing import store_export
from dragoman.decoding.bulk.run import Bulk, carry_out
from dragoman.decoding.bulk.summary import Summary
from dragoman.decoding.bulk.work import Outcome
from dragoman.export.ctranslate2 import weights_file

GOLDEN = Path(__file__).parents[3] / "golden" / "v1"
NAMES = ["a.jsonl", "b.jsonl", "c.jsonl"]


@pytest.fixture
def shards(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(NAMES, 1):
        rows = [{"text": "ten old houses.", "id": place} for place in range(number)]
        (tmp_path / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "in" / "*.jsonl")


def run(bulk: Bulk) -> tuple[Summary, list[str]]:
    said: list[str] = []
    return carry_out(bulk, lambda what, done, total: None, said.append), said


def store(folder: Path, kind: ExportStore) -> None:
    content = weights_file(open_bundle(folder), kind)
    store_export(folder, Export.untried(content, kind), content)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_shards_are_translated_once_and_again_only_when_something_is_wrong(
    model: Path, shards: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    asked = Bulk(model, shards, out, workers=2, threads=1)
    first, said = run(asked)
    assert (len(first.done), first.kept, first.rows, first.unfinished, said) == (3, [], 6, [], [])
    whole = contents(out)
    assert set(whole) == {"bulk.json", *NAMES, *(f"{name}.manifest.json" for name in NAMES)}

    (out / "a.jsonl").write_bytes(whole["a.jsonl"][:-3])  # damaged
    (out / "b.jsonl.manifest.json").unlink()  # killed before its last word
    (out / ".b.jsonl.0123abcd.incomplete").touch()
    (out / ".lock.0-of-1").touch()
    stamp = (out / "c.jsonl").stat().st_mtime_ns
    second, said = run(asked)
    assert {outcome.shard.name for outcome in second.done} == {"a.jsonl", "b.jsonl"}
    assert [manifest.output.file for manifest in second.kept] == ["c.jsonl"]
    assert len(said) == 1
    assert "a.jsonl is translated again: its translation is not what it was" in said[0]
    assert contents(out) == whole
    assert (out / "c.jsonl").stat().st_mtime_ns == stamp

    third, _ = run(asked)
    assert (third.done, third.rows) == ([], 6)
    assert third.text() == "3 shards finished, 6 rows; 3 of them were finished before"


@pytest.mark.slow
def test_portions_together_give_what_one_run_gives(model: Path, shards: str, tmp_path: Path) -> None:
    for index in range(2):
        run(Bulk(model, shards, tmp_path / "cut", workers=1, threads=1, shard_index=f"{index}/2"))
    run(Bulk(model, shards, tmp_path / "whole", workers=1, threads=1))
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_wrong_row_is_named_and_keeps_no_other_shard_from_being_finished(
    model: Path, shards: str, tmp_path: Path
) -> None:
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "two red dogs."}\n{"text": 3}\n')
    summary, said = run(Bulk(model, shards, tmp_path / "out", workers=1, threads=1))
    assert {outcome.shard.name for outcome in summary.done} == {"a.jsonl", "c.jsonl"}
    wrong = f"{tmp_path / 'in' / 'b.jsonl'}, line 2: 'text' must be text or null, not 3"
    assert said == [wrong]
    assert summary.problems().startswith(
        f"1 shard could not be translated, as said above: {tmp_path / 'in' / 'b.jsonl'}\n"
    )
    assert "must be text" not in summary.problems()
    assert summary.lost == []
    assert not (tmp_path / "out" / "b.jsonl").exists()


def test_other_models_and_options_are_refused_before_anything_is_done(
    model: Path, other_model: Path, shards: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(Bulk(model, shards, out, shard_index="5/6"))  # a portion without shards: the folder is ours now
    before = contents(out)
    assert set(before) == {"bulk.json"}
    for changed, said in (
        (Bulk(other_model, shards, out), "model [0-9a-f]{12} there and [0-9a-f]{12} here"),
        (Bulk(model, shards, out, beam=2), "beam_size 3 there and 2 here"),
        (Bulk(model, shards, out, into="german"), "into translation there and german here"),
        (Bulk(model, shards, out, split=False), "split True there and False here"),
        (Bulk(model, shards, out, compute="int8"), "compute float32 there and int8 here"),
    ):
        with pytest.raises(ValueError, match=said):
            run(changed)
    assert contents(out) == before


def test_an_export_that_comes_later_shuts_nobody_out_unless_it_is_the_one_in_use(
    model: Path, shards: str, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    for compute in ("float32", "int8"):
        run(Bulk(copy, shards, tmp_path / compute, shard_index="5/6", compute=compute))
    store(copy, "int8")
    run(Bulk(copy, shards, tmp_path / "float32", shard_index="5/6", compute="float32"))
    with pytest.raises(ValueError, match="store float32 there and int8 here"):
        run(Bulk(copy, shards, tmp_path / "int8", shard_index="5/6", compute="int8"))


@pytest.mark.slow
def test_what_is_left_of_shards_that_are_gone_is_named(model: Path, shards: str, tmp_path: Path) -> None:
    run(Bulk(model, shards, tmp_path / "out", workers=1, threads=1))
    (tmp_path / "in" / "b.jsonl").unlink()
    summary, _ = run(Bulk(model, shards, tmp_path / "out", workers=1, threads=1, shard_index="0/2"))
    assert summary.text().endswith("\nbeside them are translations of shards that are not named now: b.jsonl")
    assert (tmp_path / "out" / "b.jsonl").is_file()


def test_what_cannot_be_is_refused_before_anything_is_written(model: Path, shards: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "in" / "d.csv").touch()
    for asked, said in (
        (Bulk(model, shards, out, shard_index="2/2"), "counted from 0"),
        (Bulk(model, shards, out, into="text"), "--into text is what is translated"),
        (Bulk(model, str(tmp_path / "in" / "*"), out), r"d\.csv: a shard is Parquet, JSON lines or plain text"),
        (Bulk(tmp_path / "in", shards, out), "in/manifest.json: the file is missing"),
    ):
        with pytest.raises(ValueError, match=said):
            run(asked)
    assert not out.exists()


def test_a_model_without_an_export_says_why_torch_translates(shards: str, tmp_path: Path) -> None:
    _, said = run(Bulk(GOLDEN, shards, tmp_path / "out", shard_index="5/6"))
    assert len(said) == 1
    assert said[0].startswith("torch translates, which is slower: this model has no export yet")
    record = json.loads((tmp_path / "out" / "bulk.json").read_text())["manifest"]
    assert record["settings"]["engine"] == "torch"


def test_a_summary_counts_and_names() -> None:
    outcomes = [
        Outcome(Path("a"), 1500, 3000),
        Outcome(Path("b"), wrong="b: bad"),
        Outcome(Path("c"), wrong="c: 3 workers died at it", lost=True),
    ]
    summary = Summary([], outcomes, 2.0)
    assert summary.text() == "1 shard finished, 1,500 rows; 3,000 sentences in 2.0 s: 1,500 a second"
    assert summary.problems().startswith("2 shards could not be translated, as said above: b, c\nall others")
    assert [outcome.shard for outcome in summary.lost] == [Path("c")]
