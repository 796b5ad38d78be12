"""`dragoman translate --glossary` as installed: what it writes, and what it says about terms that are not used."""

import json
import subprocess
from pathlib import Path

from fork_server import DRAGOMAN

MODEL = str(Path(__file__).parents[1] / "golden" / "v1")
TEXTS = ["two red dogs.", "", "ten old houses."]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(DRAGOMAN), "translate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)


def write_glossary(folder: Path, **terms: str) -> Path:
    path = folder / "terms.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in terms.items()), encoding="utf-8")
    return path


def test_terms_are_used_and_the_others_reported(tmp_path: Path) -> None:
    glossary = write_glossary(tmp_path, dog="Frauen", house="Häuser", women="x" * 200)
    done = run(MODEL, "two red dogs.", "ten old houses.", "four green women.", "--glossary", glossary)
    assert done.returncode == 0, done.stderr
    first, second, _ = done.stdout.splitlines()
    assert "Frauen" in first
    assert second == "zehn alte Häuser."
    assert done.stderr.count("\n") <= 1
    quiet = run(MODEL, "four green women.", "--glossary", glossary, "--quiet")
    assert quiet.stderr == ""


def test_json_lines_get_the_terms_only_on_request(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    glossary = write_glossary(tmp_path, dog="Hund")
    plain = run(MODEL, "--input", source, "--glossary", glossary)
    rows = [json.loads(line)["translation"] for line in plain.stdout.splitlines()]
    assert rows == ["zwei rote Hunde.", "", "zehn alte Häuser."]
    listed = run(MODEL, "--input", source, "--glossary", glossary, "--terms")
    rows = [json.loads(line)["translation"] for line in listed.stdout.splitlines()]
    terms = [{"source": "dog", "target": "Hund", "used": True}]
    assert rows[0] == {"text": "zwei rote Hunde.", "terms": terms}
    assert rows[2] == {"text": "zehn alte Häuser.", "terms": []}


def test_a_mistake_in_the_glossary_names_file_and_line(tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("dog\tHund\ncat\n", encoding="utf-8")
    for arguments in (("two red dogs.",), ("--shards", str(tmp_path / "*.tsv"), "--out", tmp_path / "out")):
        done = run(MODEL, *arguments, "--glossary", glossary)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{glossary}, line 2" in done.stderr or "not supported" in done.stderr


def test_options_that_need_or_exclude_a_glossary_are_refused(tmp_path: Path) -> None:
    glossary = write_glossary(tmp_path, dog="Hund")
    for arguments in (("--terms",), ("--glossary", glossary, "--terms"), ("--glossary", glossary, "--prefix", "Ein")):
        done = run(MODEL, "two red dogs.", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: --")


def test_shards_are_translated_with_the_glossary_and_no_other(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("two red dogs.\n", encoding="utf-8")
    arguments = (exported, "--shards", str(tmp_path / "in" / "*.txt"), "--out", tmp_path / "out", "--workers", "1")
    first = run(*arguments, "--glossary", write_glossary(tmp_path, dog="Frauen"))
    assert first.returncode == 0, first.stderr
    assert "Frauen" in (tmp_path / "out" / "a.txt").read_text(encoding="utf-8")
    other = run(*arguments, "--glossary", write_glossary(tmp_path, dog="Häuser"))
    assert other.returncode == 2
    assert "glossary" in other.stderr
    assert run(*arguments).returncode == 2
