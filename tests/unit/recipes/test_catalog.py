import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.data.dates import dates
from dragoman.experiment.preflight import check_files
from dragoman.experiment.request import TrainRequest, plan_training
from dragoman.io.progress import ignore_progress
from dragoman.recipes.catalog import LIBRARY, list_recipes, recipe_names
from dragoman.recipes.recipe import load_recipe


def test_every_recipe_names_its_files_and_how_to_get_them() -> None:
    assert [entry.name for entry in list_recipes()] == sorted(path.stem for path in LIBRARY.glob("*.yaml"))
    assert {"dates", "multi30k-en-de", "wmt14-en-de-base"} <= set(recipe_names())
    for entry in list_recipes():
        assert entry.path.is_file()
        assert entry.obtain
        assert entry.description
        assert len(entry.files) >= 6


def test_the_example_searches_alike_on_every_engine() -> None:
    """CTranslate2 stops by count alone."""
    assert load_recipe(LIBRARY / "dates.yaml").validation.search.stop == "count"


def test_a_recipe_is_trained_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    request = TrainRequest(out=tmp_path / "run", recipe=Path("multi30k-en-de"), overrides=("seed=7",))
    recipe = plan_training(request, ignore_progress).recipe
    assert (recipe.name, recipe.seed) == ("multi30k-en-de", 7)
    assert recipe.data.train[0].source == str(tmp_path / "multi30k" / "tok" / "train.lc.norm.tok.en.gz")
    problems = [finding.message for finding in check_files(recipe) if finding.level == "problem"]
    for corpus in (*recipe.data.train, *recipe.data.test):
        assert any(corpus.source in message for message in problems)
    assert problems[-1].endswith(recipe.data.obtain)


def test_an_unset_variable_is_named_once_with_how_to_get_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    request = TrainRequest(out=tmp_path / "run", recipe=Path("multi30k-en-de"))
    with pytest.raises(ValueError, match="export DRAGOMAN_DATA=") as caught:
        plan_training(request, ignore_progress)
    obtain, variable = str(caught.value).splitlines()
    assert "data.obtain: to get the data: Multi30k" in obtain
    assert "data.train.0.source: " in variable


def test_the_dates_are_looked_for_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = plan_training(TrainRequest(out=Path("run"), recipe=Path("dates")), ignore_progress).recipe
    problems = [finding.message for finding in check_files(recipe) if finding.level == "problem"]
    assert any(str(tmp_path / "train.en") in message for message in problems)
    assert "dragoman example dates" in problems[-1]
    for side, texts in zip(("en", "iso"), zip(*dates(30, 1), strict=True), strict=True):
        for part in ("train", "dev", "test"):
            (tmp_path / f"{part}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    assert not [finding for finding in check_files(recipe) if finding.level == "problem"]


def test_a_name_that_is_nearly_right_gets_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"multi30k-de-en.*multi30k-en-de"):
        plan_training(TrainRequest(out=tmp_path, recipe=Path("multi30k-de-en")), ignore_progress)


@pytest.mark.slow
def test_the_command_lists_and_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)  # with the data, it says where they are

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dragoman", "recipes", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    listed = run().stdout
    for entry in list_recipes():
        assert f"{entry.name}\n" in listed
        assert entry.obtain in listed
    assert run("dates").stdout == (LIBRARY / "dates.yaml").read_text(encoding="utf-8")
    assert run("--schema").stdout == (LIBRARY / "schema.json").read_text(encoding="utf-8")
    assert run("date").returncode == 2
