"""`dragoman example`: the first files of someone who has none."""

import subprocess
from pathlib import Path

from fork_server import DRAGOMAN


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRAGOMAN, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_it_writes_the_dates_and_says_what_to_do_next(tmp_path: Path) -> None:
    done = run("example", "dates", "dates/", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert said[:3] == [
        "15,000 pairs in dates/train.en and .iso",
        "   500 pairs in dates/dev.en and .iso",
        "   500 pairs in dates/test.en and .iso",
    ]
    first = [(tmp_path / "dates" / f"test.{side}").read_text(encoding="utf-8").split("\n")[0] for side in ("en", "iso")]
    assert said[3] == f"       {first[0]} -> {first[1]}"
    assert said[-1] == "to train a model in a few minutes: dragoman train dates/recipe.yaml --out dates-run"
    assert (tmp_path / "dates" / "recipe.yaml").is_file()


def test_a_folder_with_a_space_in_its_name_is_quoted(tmp_path: Path) -> None:
    said = run("example", "dates", "my dates", folder=tmp_path).stdout.splitlines()
    assert said[-1].endswith(": dragoman train 'my dates/recipe.yaml' --out 'my dates-run'")


def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    done = run("example", "dates", "full", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: full ")
    assert len(done.stderr.splitlines()) == 1
