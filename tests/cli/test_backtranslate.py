"""`dragoman backtranslate` as installed: target text in, tagged pairs out, ready for a recipe."""

import json
import subprocess
from pathlib import Path

import yaml
from fork_server import DRAGOMAN

from dragoman.data.corpus import CorpusConfig, read_chunks


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(DRAGOMAN), "backtranslate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def pairs(corpus: dict[str, object]) -> list[tuple[str, str]]:
    chunks = list(read_chunks(CorpusConfig.model_validate(corpus), 100))
    return [
        (source.decode(), target.decode())
        for chunk in chunks
        for source, target in zip(chunk.source.to_pylist(), chunk.target.to_pylist(), strict=True)
    ]


def corpora(folder: Path) -> list[dict[str, object]]:
    """What is there to be copied into a recipe, read in a recipe."""
    _, _, entries = (folder / "corpus.yaml").read_text("utf-8").partition("  train:\n")
    recipe = f"data:\n  train:\n    - name: found\n      source: a.en\n      target: a.de\n{entries}  dev: null\n"
    found, *made = yaml.safe_load(recipe)["data"]["train"]
    assert found["name"] == "found"
    return made


def test_text_and_json_lines_become_corpora_with_what_was_made_as_the_source(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "mono").mkdir()
    (tmp_path / "mono" / "a.en").write_text("two red dogs.\nthree old houses.\n", encoding="utf-8")
    (tmp_path / "mono" / "b.jsonl").write_text(json.dumps({"sentence": "ten old houses."}) + "\n", encoding="utf-8")
    for pattern in ("a.en", "b.jsonl"):
        done = run(
            exported, "--shards", tmp_path / "mono" / pattern, "--out", tmp_path / pattern, "--field", "sentence"
        )
        assert done.returncode == 0, done.stderr
        assert str(tmp_path / pattern / "corpus.yaml") in done.stdout.splitlines()[-1]
    (text,) = corpora(tmp_path / "a.en")
    assert (text["name"], text["tag"], text["weight"]) == ("back-a.en", "<bt>", 1.0)
    assert pairs(text) == [("zwei rote Hunde.", "two red dogs."), ("drei alte Häuser.", "three old houses.")]
    (lines,) = corpora(tmp_path / "b.jsonl")
    assert pairs(lines) == [("zehn alte Häuser.", "ten old houses.")]


def test_a_file_without_a_line_is_left_out_and_nothing_else_is_nothing(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("ten\n", encoding="utf-8")
    (tmp_path / "b.en").write_text("", encoding="utf-8")
    done = run(exported, "--shards", tmp_path / "*.en", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if str(tmp_path / "b.en") in line]
    assert [corpus["name"] for corpus in corpora(tmp_path / "out")] == ["back-a.en"]
    done = run(exported, "--shards", tmp_path / "b.en", "--out", tmp_path / "nothing")
    assert done.returncode == 2
    assert "b.en" in done.stderr


def test_a_weight_of_nothing_is_refused_before_anything_is_translated(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("ten\n", encoding="utf-8")
    done = run(exported, "--shards", tmp_path / "a.en", "--out", tmp_path / "out", "--weight", "0")
    assert (done.returncode, done.stderr) == (2, "error: --weight 0 would leave the pairs out: give a weight above 0\n")
    assert not (tmp_path / "out").exists()
