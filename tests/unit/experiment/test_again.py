"""A run that was begun goes on only with the recipe that it was begun with, unless another is meant."""

from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.again import differences, refuse_asked, refuse_changes, refuse_other_text, remember_asked
from dragoman.experiment.recipe import DataSection, Recipe, changed


def recipe() -> Recipe:
    return Recipe(name="run", data=DataSection(train=(CorpusConfig(source="/a.en", target="/a.de"),)))


def test_the_same_recipe_is_no_change() -> None:
    refuse_changes(recipe(), recipe(), accepted=False)


def test_another_recipe_is_refused_with_the_difference_unless_it_is_meant() -> None:
    other = changed(recipe(), ["training.schedule.rate=0.5", "seed=7"])
    with pytest.raises(ValueError, match="was begun with another recipe") as refused:
        refuse_changes(recipe(), other, accepted=False)
    lines = str(refused.value).splitlines()
    assert "  training.schedule.rate: 1.0 before, 0.5 now" in lines
    assert "  seed: 1 before, 7 now" in lines
    assert lines[-1].endswith("--changed to go on all the same")
    assert len(lines) == 4
    refuse_changes(recipe(), other, accepted=True)


def test_another_model_is_always_refused() -> None:
    other = changed(recipe(), ["model.d_model=64"])
    with pytest.raises(ValueError, match="a run cannot go on with another model") as refused:
        refuse_changes(recipe(), other, accepted=True)
    assert "  model.d_model: 512 before, 64 now" in str(refused.value).splitlines()


def test_what_was_asked_for_is_compared(tmp_path: Path) -> None:
    asked = {"source": ["/a.en"], "target": ["/a.de"], "time": "45m", "set": []}
    remember_asked(tmp_path, asked)
    refuse_asked(tmp_path, asked)
    with pytest.raises(ValueError, match="was begun with other options") as refused:
        refuse_asked(tmp_path, asked | {"time": "60m"})
    assert '  time: "45m" before, "60m" now' in str(refused.value).splitlines()


def test_what_a_list_has_more_is_new() -> None:
    assert differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ["a.1.b: 2 before, 3 now"]
    assert differences({"a": [1]}, {"a": [1, 2]}) == ["a.1: nothing before, 2 now"]
    new = [{"name": "back-news.de", "source": "a"}]
    assert differences({"train": []}, {"train": new}) == ["train.0: nothing before, back-news.de now"]
    assert differences({"a": 1}, {"b": 1}) == ["a: 1 before, null now", "b: null before, 1 now"]


def test_other_text_is_refused_even_if_changes_are_meant(tmp_path: Path) -> None:
    asked = {"source": ["/a.en"], "target": ["/a.de"], "time": "45m", "set": []}
    remember_asked(tmp_path, asked)
    refuse_other_text(tmp_path, asked | {"time": "60m"})
    with pytest.raises(ValueError, match="was begun with other text") as refused:
        refuse_other_text(tmp_path, asked | {"source": ["/a.en", "/b.en"]})
    assert '  source.1: nothing before, "/b.en" now' in str(refused.value).splitlines()
    assert f"in a copy of {tmp_path / 'recipe.yaml'}, and give that copy with --changed" in str(refused.value)
