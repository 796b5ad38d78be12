"""Files of pairs (`--pairs`) in the commands that take text."""

import csv
import gzip
import json
import os
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import yaml
from fork_server import DRAGOMAN

from dragoman.data.dates import dates

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
PAIRS = dates(120, seed=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same pairs in every format."""
    for side, texts in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    units = [
        f'<tu><tuv lang="en-US"><seg>{escape(source)}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>\n'
        for source, target in PAIRS
    ]
    tmx = f'<tmx version="1.4"><header srclang="en-US"/><body>{"".join(units)}</body></tmx>'
    (tmp_path / "a.tmx").write_text(tmx, encoding="utf-8")
    segments = [
        f"<segment><source>{escape(source)}</source><target>{target}</target></segment>" for source, target in PAIRS
    ]
    unit = f'<file id="f"><unit id="u">{"".join(segments)}</unit></file>'
    xliff = f'<xliff version="2.0" srcLang="en" trgLang="de">{unit}</xliff>'
    (tmp_path / "a.xlf.gz").write_bytes(gzip.compress(xliff.encode()))
    messages = [f"msgid {json.dumps(source)}\nmsgstr {json.dumps(target)}\n" for source, target in PAIRS]
    (tmp_path / "a.po").write_text("\n".join(messages), encoding="utf-8")
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [("target", "id", "source"), *((b, i, a) for i, (a, b) in enumerate(PAIRS))]
        )
    with (tmp_path / "a.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"t": {"en": source, "de": target}}) + "\n" for source, target in PAIRS)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, *arguments]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)


def test_a_translation_memory_is_enough_to_plan_a_training(folder: Path) -> None:
    done = run(folder, "doctor", "--pairs", "a.tmx", "--time", "2m")
    assert done.returncode == 0, done
    assert "120 pairs" in done.stdout
    done = run(folder, "train", "--pairs", "a.tmx", "--out", "run", "--time", "2m", "--recipe-only")
    assert done.returncode == 0, done
    recipe = yaml.safe_load((folder / "run" / "recipe.yaml").read_text(encoding="utf-8"))
    assert (recipe["source_language"], recipe["target_language"]) == ("en", "de")
    assert [corpus["source"] for corpus in recipe["data"]["train"]] == [str(folder / "a.tmx")]


def test_the_fields_choose_the_direction(folder: Path) -> None:
    done = run(
        folder, "train", "--pairs", "a.tmx", "--fields", "de,en", "--out", "run", "--time", "2m", "--recipe-only"
    )
    assert done.returncode == 0, done
    recipe = yaml.safe_load((folder / "run" / "recipe.yaml").read_text(encoding="utf-8"))
    assert (recipe["source_language"], recipe["target_language"]) == ("de", "en")
    assert recipe["data"]["train"][0]["source_field"] == "de"


def test_the_same_pairs_are_prepared_to_the_same_bytes_from_every_format(folder: Path) -> None:
    def prepared(out: str, *options: str) -> dict[str, bytes]:
        done = run(folder, "prepare", *options, "--out", out, "--quiet")
        assert done.returncode == 0, done
        return {path.name: path.read_bytes() for path in (folder / out).glob("*.arrow")}

    text = prepared("text", "--source", "a.en", "--target", "a.de")
    assert sorted(text) == ["cells.arrow", "train-00000.arrow"]
    assert prepared("tmx", "--pairs", "a.tmx") == text
    assert prepared("xliff", "--pairs", "a.xlf.gz") == text
    assert prepared("po", "--pairs", "a.po") == text
    assert prepared("csv", "--pairs", "a.csv") == text
    assert prepared("jsonl", "--pairs", "a.jsonl", "--fields", "t.en,t.de") == text
    assert prepared("turned", "--pairs", "a.jsonl", "--fields", "t.de,t.en") != text


def test_held_out_pairs_are_kept_out(folder: Path) -> None:
    (folder / "test.csv").write_text(
        "".join(f'"{source}","{target}"\n' for source, target in PAIRS[:9]), encoding="utf-8"
    )
    done = run(folder, "prepare", "--pairs", "a.tmx", "--held-out-pairs", "test.csv", "--out", "out", "--quiet")
    assert done.returncode == 0, done
    report = json.loads((folder / "out" / "report.json").read_bytes())
    assert report["train"]["counts"]["leak"] == {"drop": 9}


def test_both_sides_of_a_test_set_come_from_one_file(folder: Path) -> None:
    score = run(folder, "score", str(GOLDEN), "--pairs", "a.csv")
    align = run(folder, "align", str(GOLDEN), "--pairs", "a.csv")
    assert [len(done.stdout.splitlines()) for done in (score, align)] == [len(PAIRS), len(PAIRS)]
    two = run(folder, "evaluate", "a.de", "--source", "a.en", "--reference", "a.de", "--json", "-")
    one = run(folder, "evaluate", "a.de", "--pairs", "a.tmx", "--json", "-")
    reports = [json.loads(done.stdout) for done in (one, two)]
    assert reports[0]["systems"] == reports[1]["systems"]
    for side in (lambda report: report["source"], lambda report: report["references"][0]):
        assert side(reports[0])["sha256"] == side(reports[1])["sha256"]
    inputs = (["--pairs", "a.po"], ["--source", "a.en", "--target", "a.de"])
    triage = [run(folder, "triage", *options, "--json", "-") for options in inputs]
    assert triage[0].stdout == triage[1].stdout != ""
