"""Checks of text, and the studio of a run, in an installation without the training packages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "studio"))  # for runs.py
from runs import write_run

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = ("torch", "pyarrow", "sacrebleu", "fsspec", "matplotlib", "polib", "zstandard")
        return None if name.partition(".")[0] in missing else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT)
    numbers = range(2_100)
    (tmp_path / "a.en").write_text("".join(f"The {number} dogs are old.\n" for number in numbers))
    (tmp_path / "a.de").write_text("".join(f"Die {number} Hunde sind alt.\n" for number in numbers))
    (tmp_path / "short.de").write_text("Die 0 Hunde sind alt.\n")
    (tmp_path / "gaps.de").write_text("".join(f"Die {number} Hunde.\n" if number % 2 else "\n" for number in numbers))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "site"), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def levels(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the level of each check."""
    return {line[9:21].strip(): line[:9].strip() for line in done.stdout.splitlines()}


@pytest.mark.slow
def test_triage_compares_texts(folder: Path) -> None:
    done = run(folder, "triage", "--source", "a.en", "--target", "a.de")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 2,100" in done.stdout


@pytest.mark.slow
def test_triage_ranks_what_a_model_translates(folder: Path) -> None:
    (folder / "b.en").write_text("A dog sleeps.\nHe paid 300 euros.\n")
    done = run(folder, "triage", "--source", "b.en", "--html", "b.html", "--json", "b.jsonl", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert len((folder / "b.jsonl").read_text().splitlines()) == 2
    assert "of 2 have a score" in (folder / "b.html").read_text()
    assert not (folder / "b_traces").exists()
    done = run(folder, "triage", "--source", "b.en", "--html", "b.html", "--traces", "3")
    assert done.returncode == 2
    assert "dragoman[train]" in done.stderr


@pytest.mark.slow
def test_doctor_checks_the_text_and_names_the_rest(folder: Path) -> None:
    done = run(folder, "doctor", "--source", "a.en", "--target", "a.de")
    assert done.returncode == 0, done.stderr
    assert levels(done) == {"machine": "warning", "files": "ok", "pairs": "ok", "not checked": "warning"}
    assert "dragoman[train]" in done.stdout


@pytest.mark.slow
def test_doctor_finds_problems_of_the_text(folder: Path) -> None:
    done = run(folder, "doctor", "--source", "a.en", "--target", "short.de")
    assert (done.returncode, levels(done)["files"]) == (2, "problem")
    done = run(folder, "doctor", "--source", "a.en", "--target", "gaps.de")
    assert (done.returncode, levels(done)["empty"]) == (0, "warning")
    assert "1,050 pairs" in done.stdout
    done = run(folder, "doctor", "--source", "a.en")
    assert done.returncode == 2


@pytest.mark.slow
def test_other_inputs_name_the_extra(folder: Path) -> None:
    done = run(folder, "doctor", "dates")
    assert done.returncode == 2
    assert "dragoman[train]" in done.stderr


@pytest.mark.slow
def test_a_run_is_watched(folder: Path) -> None:
    write_run(folder / "run")
    path = os.pathsep.join([str(folder / "site"), *sys.path])
    command = [sys.executable, "-m", "dragoman", "studio", "run", "--no-browser"]
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page, _, token = process.stdout.readline().strip().partition("#token=")
        try:
            answers = []
            for name in ("studio", "runs/run/evolution", "runs/run/events"):
                request = Request(f"{page}api/{name}", headers={"authorization": f"Bearer {token}"})
                with urlopen(request, timeout=60) as answer:
                    answers.append(answer.readline() if name != "runs/run/events" else answer.read(12))
        finally:
            process.terminate()
    info = json.loads(answers[0])
    assert (info["has_torch"], info["models"]) == (False, [])
    assert len(json.loads(answers[1])["heads"]) == 9
    assert answers[2] == b"event: log\nd"
