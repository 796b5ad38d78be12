"""A run is resumed only with the recipe that it began with, unless changes are allowed."""

from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.run_folder import (
    check_same_recipe,
    check_same_request,
    check_same_text,
    differences,
    save_plan,
)
from dragoman.experiment.run_state import has_own_recipe, is_run_folder
from dragoman.recipes.recipe import DataSection, Recipe, override_recipe


def recipe() -> Recipe:
    return Recipe(name="run", data=DataSection(train=(CorpusConfig(source="/a.en", target="/a.de"),)))


def test_the_same_recipe_is_no_change() -> None:
    check_same_recipe(recipe(), recipe(), allow_changes=False)


def test_another_recipe_is_refused_with_the_difference_unless_changes_are_allowed() -> None:
    other = override_recipe(recipe(), ["training.schedule.rate=0.5", "seed=7"])
    with pytest.raises(ValueError, match="began with another recipe") as refused:
        check_same_recipe(recipe(), other, allow_changes=False)
    lines = str(refused.value).splitlines()
    assert "  training.schedule.rate: 1.0 before, 0.5 now" in lines
    assert "  seed: 1 before, 7 now" in lines
    assert "--changed" in lines[-1]
    assert len(lines) == 4
    check_same_recipe(recipe(), other, allow_changes=True)


def test_another_model_is_always_refused() -> None:
    other = override_recipe(recipe(), ["model.d_model=64"])
    with pytest.raises(ValueError, match="another model") as refused:
        check_same_recipe(recipe(), other, allow_changes=True)
    assert "  model.d_model: 512 before, 64 now" in str(refused.value).splitlines()


def test_a_request_is_compared_with_the_saved_one(tmp_path: Path) -> None:
    choices = {"source": ["/a.en"], "target": ["/a.de"], "time": "45m", "set": []}
    save_plan(tmp_path, choices, recipe())
    check_same_request(tmp_path, choices)
    with pytest.raises(ValueError, match="began with other options") as refused:
        check_same_request(tmp_path, choices | {"time": "60m"})
    assert '  time: "45m" before, "60m" now' in str(refused.value).splitlines()


def test_what_a_list_has_more_is_new() -> None:
    assert differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ["a.1.b: 2 before, 3 now"]
    assert differences({"a": [1]}, {"a": [1, 2]}) == ["a.1: nothing before, 2 now"]
    new = [{"name": "back-news.de", "source": "a"}]
    assert differences({"train": []}, {"train": new}) == ["train.0: nothing before, back-news.de now"]
    assert differences({"a": 1}, {"b": 1}) == ["a: 1 before, null now", "b: null before, 1 now"]


def test_other_text_is_refused_even_if_changes_are_meant(tmp_path: Path) -> None:
    choices = {"source": ["/a.en"], "target": ["/a.de"], "time": "45m", "set": []}
    save_plan(tmp_path, choices, recipe())
    check_same_text(tmp_path, choices | {"time": "60m"})
    with pytest.raises(ValueError, match="began with other text") as refused:
        check_same_text(tmp_path, choices | {"source": ["/a.en", "/b.en"]})
    assert '  source.1: nothing before, "/b.en" now' in str(refused.value).splitlines()
    assert f"in a copy of {tmp_path / 'recipe.yaml'}, and train that with --changed" in str(refused.value)


def test_a_folder_with_other_files_is_no_run_folder(tmp_path: Path) -> None:
    assert is_run_folder(tmp_path)
    (tmp_path / "holiday.jpg").touch()
    assert not is_run_folder(tmp_path)
    (tmp_path / "recipe.yaml").touch()
    assert is_run_folder(tmp_path)


def test_a_recipe_without_a_run_belongs_to_the_user(tmp_path: Path) -> None:
    assert not has_own_recipe(tmp_path)
    (tmp_path / "recipe.yaml").touch()
    assert has_own_recipe(tmp_path)
    (tmp_path / "request.json").touch()
    assert not has_own_recipe(tmp_path)
