"""`dragoman lab`: the list, a run that goes on, the report, and mistakes."""

import json
import subprocess
from pathlib import Path

from fork_server import DRAGOMAN

from dragoman.lab.run_experiment import experiment_names


def lab(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRAGOMAN, "lab", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_list_names_every_experiment_with_its_source(tmp_path: Path) -> None:
    listed = lab(tmp_path)
    assert listed.returncode == 0
    assert [line for line in listed.stdout.splitlines() if not line.startswith(" ")] == experiment_names()


def test_a_run_writes_json_picture_and_page_and_the_report_shows_it(tmp_path: Path) -> None:
    ran = lab(tmp_path, "run", "hi-how-are-you", "--seeds", "2", "--out", "results", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("hi-how-are-you: fails as told\n")
    folder = tmp_path / "results" / "hi-how-are-you"
    names = {"page.md", "picture.svg", "result.json", "seed-0.json", "seed-1.json"}
    assert {file.name for file in folder.iterdir()} == names
    assert json.loads((folder / "result.json").read_text())["verdict"] == "fails as told"
    reported = lab(tmp_path, "report", "results", "--output", "verdicts.md")
    assert reported.returncode == 0
    assert reported.stdout == "fails as told  hi-how-are-you (2 seeds)\n"
    assert (tmp_path / "verdicts.md").is_file()


def test_a_mistake_ends_with_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    unknown = lab(tmp_path, "run", "squar-root")
    assert unknown.returncode == 2
    assert "square-root" in unknown.stderr
    assert lab(tmp_path, "run", "square-root", "--time", "soon").returncode == 2
    assert lab(tmp_path, "report", "nothing").returncode == 2
    assert list(tmp_path.iterdir()) == []
