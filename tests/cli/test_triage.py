"""`dragoman triage` as installed: two files, a model, or both; the table, JSON lines and the report; and mistakes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from fork_server import DRAGOMAN

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden"
MODEL = str(GOLDEN / "v1")
ENGLISH = ["ten old houses.", "two red dogs 300.", "", "four green women.", "two red dogs. " * 60]
GERMAN = ["zehn alte Häuser.", "zwei rote Hunde 500.", "nichts", "vier grüne grüne grüne Frauen.", "kurz"]
FILES = ("--source", "test.en", "--target", "test.de")


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "test.en", ENGLISH)
    write(tmp_path / "test.de", GERMAN)
    return tmp_path


def run(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, "triage", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False, **options
    )


def test_two_files_are_compared_by_their_text(folder: Path) -> None:
    done = run(folder, *FILES)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("4 of 5 have flags: length 2, ")
    numbers = [int(found) for found in re.findall(r"^│ +(\d+) │", done.stdout, re.MULTILINE)]
    assert sorted(numbers) == [2, 3, 4, 5]
    assert '! numbers 0.90: the target lacks "300"; only the target has "500"' in re.sub(r"[│\s]+", " ", done.stdout)
    assert "is a reason to look, not a verdict." in " ".join(done.stdout.split())
    assert "signals and dropped words need a model" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_two_files_need_no_torch(folder: Path) -> None:
    arguments = ["dragoman", "triage", *FILES, "--html", "a.html", "--json", "a.jsonl"]
    code = f"import sys; sys.argv = {arguments}; from dragoman.cli.main import main; main()"
    watched = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(watched, cwd=folder, capture_output=True, text=True, check=True)
    modules = set(re.findall(r"\|\s+(\S+)$", done.stderr, flags=re.MULTILINE))
    assert "dragoman.triage.report_page" in modules
    assert modules & {"torch", "matplotlib"} == set()
    assert not (folder / "a_traces").exists()


def test_a_model_translates_and_the_report_opens_the_traces(folder: Path) -> None:
    done = run(folder, "--source", "test.en", "--model", MODEL, "--html", "my report.html", "--json", "all.jsonl")
    assert done.returncode == 0, done.stderr
    assert "Model: free-running; model " in done.stdout
    assert "Report: my report.html" in done.stdout
    assert "Judged by the text alone: 2 lines; line 3: " in " ".join(done.stdout.split())
    rows = [json.loads(line) for line in (folder / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["number"] for row in rows) == [1, 2, 3, 4, 5]
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert {row["number"]: len(row["signals"]) for row in rows} == {1: 6, 2: 6, 3: 0, 4: 6, 5: 0}
    (german,) = [row["target"] for row in rows if row["number"] == 1]
    assert german == "zehn alte Häuser."
    links = re.findall(r'href="([^#"]+)"', (folder / "my report.html").read_text(encoding="utf-8"))
    traced = [row["number"] for row in rows if (row["flags"] or row["score"] >= 0.5) and row["number"] not in (3, 5)]
    assert links == [f"my%20report_traces/line-{number}.html" for number in traced] != []
    pages = [(folder / unquote(link)).read_text(encoding="utf-8") for link in links]
    assert all("Where the model looked" in page for page in pages)
    assert all('<a href="../my%20report.html#line-' in page for page in pages)


def test_a_model_is_led_through_targets_that_are_given(folder: Path) -> None:
    done = run(folder, *FILES, "--model", MODEL, "--html", "a.html", "--traces", "1", "--top", "2")
    assert done.returncode == 0, done.stderr
    assert "Model: forced (teacher forcing); model " in done.stdout
    assert len(list((folder / "a_traces").iterdir())) == 1
    assert len(re.findall(r"^│ +\d+ │", done.stdout, re.MULTILINE)) == 2
    assert "more to look at" in done.stdout


def test_without_a_target_and_a_model_the_demo_translates_without_torch(folder: Path) -> None:
    write(folder / "one.en", ["He paid 300 euros.", "A dog sleeps."])
    arguments = ["dragoman", "triage", "--source", "one.en", "--json", "a.jsonl"]
    code = (
        f"import sys; sys.modules['torch'] = None; sys.argv = {arguments}; from dragoman.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert any("300" in row["target"] for row in rows)
    assert {signal["name"] for signal in rows[0]["signals"]} >= {"nll", "disagreement", "uncovered"}
    assert "the chance of a bad translation (chrF below 40)" in " ".join(done.stdout.split())


def test_a_recurrent_model_has_signals_too(folder: Path) -> None:
    done = run(folder, *FILES, "--model", str(GOLDEN / "v1-recurrent"), "--json", "-")
    assert done.returncode == 0, done.stderr
    assert {len(json.loads(line)["signals"]) for line in done.stdout.splitlines()} == {0, 6}


def test_the_score_is_fitted_on_dev_pairs(folder: Path) -> None:
    words = ("two", "ten", "four", "six", "three"), ("red", "old", "green", "small"), ("dogs", "houses")
    sources = [f"{number} {color} {thing}." for number in words[0] for color in words[1] for thing in words[2]]
    write(folder / "dev.en", sources)
    done = run(folder, "--source", "dev.en", "--model", MODEL, "--json", "-")
    targets = {row["source"]: row["target"] for row in map(json.loads, done.stdout.splitlines())}
    references = [targets[source] if place % 2 else "xyz" for place, source in enumerate(sources)]
    write(folder / "dev.tsv", ["\t".join(pair) for pair in zip(sources, references, strict=True)])
    done = run(folder, "--source", "test.en", "--model", MODEL, "--dev", "dev.tsv")
    assert done.returncode == 0, done.stderr
    assert "fitted on 40 lines (dev.tsv)" in " ".join(done.stdout.split())


def test_json_lines_have_standard_output_to_themselves(folder: Path) -> None:
    done = run(folder, "--source", "-", "--target", "test.de", "--json", "-", input="\n".join(ENGLISH))
    assert done.returncode == 0
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 5
    assert "4 of 5 have flags" in done.stderr


def test_when_nothing_is_flagged_it_says_so(folder: Path) -> None:
    write(folder / "good.en", ENGLISH[:1])
    write(folder / "good.de", GERMAN[:1])
    done = run(folder, "--source", "good.en", "--target", "good.de", "--html", "good.html")
    assert done.stdout.splitlines()[0] == "0 of 1 have flags"
    assert "0 of 1 have flags" in (folder / "good.html").read_text(encoding="utf-8")


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such source": (("--source", "tst.en"), "did you mean test.en"),
    "a folder for a source": (("--source", "sub"), "sub"),
    "no such target": (("--source", "test.en", "--target", "tst.de"), "did you mean test.de"),
    "other line counts": (("--source", "test.en", "--target", "short.de"), "5 lines but short.de has 1"),
    "the same file twice": (("--source", "test.en", "--target", "test.en"), "are both test.en"),
    "not UTF-8": (("--source", "latin.en"), "latin.en: line 1 is not UTF-8"),
    "an empty file": (("--source", "empty.en"), "empty.en: the file is empty"),
    "packed, but not by its name": (("--source", "packed.en"), "this looks like gzip"),
    "no such model": ((*FILES, "--model", "nowhere"), "nowhere: there is no such folder"),
    "a file for a model": ((*FILES, "--model", "test.en"), "test.en: this is a file, not a model"),
    "a folder without a model": ((*FILES, "--model", "sub"), "this is not a complete bundle"),
    "a report in no folder": (
        (*FILES, "--html", "no/a.html"),
        "no/a.html: folder no does not exist: create the folder first",
    ),
    "a folder for a report": ((*FILES, "--html", "sub.html"), "sub.html is a folder: give the name of a file"),
    "a report that is no page": (
        (*FILES, "--html", "a.pdf"),
        "--html a.pdf has an unsupported extension: give a name ending in .html",
    ),
    "a report on standard output": (
        (*FILES, "--html", "-"),
        "--html - has an unsupported extension: give a name ending in .html",
    ),
    "a report over the source": (("--source", "in.html", "--html", "./in.html"), "in.html is an input file"),
    "JSON over the target": ((*FILES, "--json", "test.de"), "test.de is an input file"),
    "JSON in no folder": ((*FILES, "--json", "no/a.jsonl"), "folder no does not exist"),
    "one name for both": ((*FILES, "--html", "a", "--json", "a"), "--html and --json are both a"),
    "a file where traces go": ((*FILES, "--html", "taken.html"), "taken_traces is a file, but traces need a folder"),
    "traces without a report": ((*FILES, "--model", MODEL, "--traces", "3"), "add --html FILE"),
    "dev pairs that teach nothing": (
        ("--source", "test.en", "--model", MODEL, "--dev", "one.tsv"),
        "give dev pairs with at least 10",
    ),
    "dev pairs for given targets": ((*FILES, "--model", MODEL, "--dev", "one.tsv"), "leave out the targets, or --dev"),
    "traces without a model": ((*FILES, "--html", "a.html", "--traces", "3"), "add --model MODEL"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub.html").mkdir()
    write(folder / "short.de", ["eins"])
    (folder / "latin.en").write_bytes("schön\n".encode("latin-1"))
    (folder / "empty.en").touch()
    (folder / "packed.en").write_bytes(b"\x1f\x8b\x08 and so on")
    (folder / "taken_traces").touch()
    write(folder / "in.html", ["a dog"])
    write(folder / "one.tsv", ["two red dogs.\tzwei rote Hunde."])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    arguments, message = MISTAKES[name]
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [(*FILES, "--top", "0"), (*FILES, "--traces", "-1")], ids=str)
def test_what_the_parser_refuses_has_exit_code_2_too(arguments: tuple[str, ...], folder: Path) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage" in done.stderr
