"""`dragoman score` as installed: a line for each pair, the whole at the end, and mistakes in one line."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
ENGLISH = ["ten old houses.", "two red dogs.", "", "two red dogs."]
GERMAN = ["zehn alte Häuser.", "zwei rote Hunde.", "nichts", "vier alte Tische."]
FILES = ("--source", "test.en", "--target", "test.de")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test.en").write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in GERMAN), encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [DRAGOMAN, "score", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_each_pair_has_a_line_and_the_whole_a_perplexity(folder: Path) -> None:
    done = run(folder, str(GOLDEN), *FILES, "--json", "-")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 4
    assert all(row["per_token"] == row["log_probability"] / row["tokens"] for row in rows)
    assert rows[1]["log_probability"] > rows[3]["log_probability"] + 1.0
    total, tokens = sum(row["log_probability"] for row in rows), sum(row["tokens"] for row in rows)
    whole = (
        f"4 pairs, {tokens} target tokens: {total / tokens:.4f} per token, perplexity {math.exp(-total / tokens):.4f}"
    )
    assert done.stderr.splitlines()[-1] == whole


def test_columns_hold_the_same_numbers(folder: Path) -> None:
    rows = [json.loads(line) for line in run(folder, str(GOLDEN), *FILES, "--json", "-").stdout.splitlines()]
    done = run(folder, str(GOLDEN), *FILES)
    assert done.stdout.splitlines() == [
        f"{row['log_probability']:.4f}\t{row['per_token']:.4f}\t{row['tokens']}" for row in rows
    ]


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such model": (("nowhere", *FILES), "nowhere: there is no such folder"),
    "a file for a model": (("test.en", *FILES), "test.en: this is a file"),
    "a missing target": ((str(GOLDEN), "--source", "test.en", "--target", "tst.de"), "did you mean test.de"),
    "other line counts": ((str(GOLDEN), "--source", "test.en", "--target", "short.de"), "4 lines but short.de has 1"),
    "a line too long": ((str(GOLDEN), "--source", "one.en", "--target", "long.de"), "line 1 of the target has"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    (folder / "short.de").write_text("eins\n", encoding="utf-8")
    (folder / "one.en").write_text("one\n", encoding="utf-8")
    (folder / "long.de").write_text("rote Hunde " * 100 + "\n", encoding="utf-8")
    arguments, error = MISTAKES[name]
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert error in done.stderr
