"""`dragoman ablate`: two real trainings, which are not repeated, their table, and mistakes."""

import subprocess
from pathlib import Path

import pytest
import short
from fork_server import DRAGOMAN

TINY = ("--rows", "E", "--seeds", "1", "--set", "training.stop.updates=8", "--processes", "1")


def ablate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, "ablate", "r.yaml", "--out", "table3", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_it_trains_what_is_missing_and_writes_the_table(tmp_path: Path) -> None:
    short.write(tmp_path)
    first = ablate(tmp_path, *TINY)
    assert first.returncode == 0, first.stderr
    names = [row.split("|")[2].strip() for row in first.stdout.splitlines()[2:]]
    assert names == ["base", "learned-positions"]
    assert first.stdout.strip() in (tmp_path / "table3" / "table.md").read_text()
    assert (tmp_path / "table3" / "table.svg").exists()
    logs = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("log.jsonl")}
    assert len(logs) == 2
    again = ablate(tmp_path, *TINY)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("log.jsonl")} == logs


def test_the_commands_for_other_machines_train_the_same(tmp_path: Path) -> None:
    short.write(tmp_path)
    printed = ablate(tmp_path, *TINY[:4], "--time", "5m", "--commands")
    assert printed.returncode == 0
    assert printed.stdout.splitlines() == [
        "dragoman train r.yaml --out table3/base/seed-1 --set seed=1 --time 5m",
        "dragoman train r.yaml --out table3/learned-positions/seed-1 --set model.positions=learned --set seed=1"
        " --time 5m",
    ]
    assert not (tmp_path / "table3").exists()


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        (("--rows", "AX"), "there is no row X"),
        (("--only", "heads-3"), "there is no such model: give one of base, "),
        (("--time", "soon"), "--time: "),
        (("--set", "model={family: recurrent}"), "recurrent"),
    ],
)
def test_a_mistake_ends_with_what_to_do(tmp_path: Path, mistake: tuple[str, ...], named: str) -> None:
    short.write(tmp_path)
    done = ablate(tmp_path, *mistake)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
