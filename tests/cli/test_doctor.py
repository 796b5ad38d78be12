"""`dragoman doctor` as installed: one line for each look, exit code 2 if there is a problem, and nothing written."""

import os
import subprocess
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

from dragoman.data.dates import dates

RECIPE = """\
name: short
data:
  train: [{source: a.en, target: a.iso}]
  dev: {source: dev.en, target: dev.iso}
  vocabulary: {size: 380}
model: {d_model: 32, d_ff: 48, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training: {stop: {updates: 9000}, batches_per_update: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pairs = dates(440, seed=1)
    for name, part in (("a", pairs[40:]), ("dev", pairs[:40])):
        for side, texts in zip(("en", "iso"), zip(*part, strict=True), strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def doctor(folder: Path, *arguments: str) -> tuple[int, dict[str, list[str]], subprocess.CompletedProcess[str]]:
    """Return the exit code, the lines by level, and the process."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = sorted(path.name for path in folder.iterdir())
    done = subprocess.run(
        [DRAGOMAN, "doctor", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert sorted(path.name for path in folder.iterdir()) == before
    lines: dict[str, list[str]] = {"ok": [], "note": [], "warning": [], "problem": []}
    for line in done.stdout.splitlines():
        level, rest = line.split(maxsplit=1)
        lines[level].append(" ".join(rest.split()))
    return done.returncode, lines, done


def test_a_recipe_without_problems(folder: Path) -> None:
    code, lines, done = doctor(folder, "r.yaml", "--out", "run", "--tensorboard", "--processes", "2")
    assert (code, lines["problem"]) == (0, []), done
    assert "recipe short: no errors" in lines["ok"]
    assert "folder run is writable" in lines["ok"]
    assert "files dev: 40 pairs in dev.en and dev.iso" in lines["ok"]
    assert "extras tensorboard is installed" in lines["ok"]
    assert any(line.startswith("pairs 400 pairs, about ") for line in lines["warning"])


def test_two_files(folder: Path) -> None:
    code, lines, done = doctor(folder, "--source", "a.en", "--target", "a.iso", "--time", "5m")
    assert (code, lines["problem"]) == (0, []), done
    assert any(line.startswith("time about ") for line in [*lines["ok"], *lines["warning"]])


def test_the_machine_alone(folder: Path) -> None:
    code, lines, done = doctor(folder)
    assert code == 0, done
    assert lines["ok"][0].startswith("machine torch 2.")


def test_all_problems_are_reported_at_once(folder: Path) -> None:
    (folder / "run").touch()
    code, lines, _ = doctor(folder, "r.yaml", "--out", "run", "--processes", "3", "--set", "model.d_model=65536")
    assert code == 2
    folders, processes, memory, *_ = lines["problem"]
    assert folders == "folder run is a file: give a folder as --out"
    assert processes.startswith("processes 3 processes cannot share 2 batches evenly")
    assert "GB are free" in memory


def test_a_wrong_recipe_has_a_line_for_each_error(folder: Path) -> None:
    (folder / "r.yaml").write_text(RECIPE.replace("dev:", "dve:").replace("380", "lots"), encoding="utf-8")
    code, lines, _ = doctor(folder, "r.yaml")
    assert code == 2
    unknown, size = lines["problem"]
    assert unknown == "recipe r.yaml:4: data.dve: unknown key; did you mean dev?"
    assert size.startswith("recipe r.yaml:5: data.vocabulary.size: ")


def test_swapped_validation_pairs(folder: Path) -> None:
    swap = ("--set", "data.dev.source=dev.iso", "--set", "data.dev.target=dev.en")
    code, lines, _ = doctor(folder, "r.yaml", *swap)
    assert code == 2
    assert lines["problem"] == [
        "languages dev: source resembles the target of the training pairs: swap source and target"
    ]


def test_errors_of_the_command_itself(folder: Path) -> None:
    for arguments, expected in (
        (("q.yaml",), "recipe q.yaml: no such recipe; did you mean r.yaml?"),
        (("r.yaml", "--time", "45"), "recipe --time: '45' is not a duration"),
        (("--source", "a.en"), "recipe a.en: a text corpus needs a target"),
        (("r.yaml", "--set", "data.vocabulary.size=9000"), "vocabulary a vocabulary of 9,000 is too large"),
        (("r.yaml", "--set", "data.dev.source=none.en"), f"files {folder / 'none.en'}: there is no such file"),
    ):
        code, found, done = doctor(folder, *arguments)
        assert code == 2, done
        assert [line.startswith(expected) for line in found["problem"]] == [True], done
