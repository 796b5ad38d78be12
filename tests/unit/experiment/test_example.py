from pathlib import Path

import pytest

from dragoman.experiment.example import PARTS, write_dates
from dragoman.recipes.recipe import load_recipe
from dragoman.text.vocab import train_vocab


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_it_writes_three_parts_and_a_recipe_that_finds_them(tmp_path: Path) -> None:
    recipe = load_recipe(write_dates(tmp_path / "new" / "dates"))
    folder = tmp_path / "new" / "dates"
    assert recipe.data.dev is not None
    corpora = {"train": recipe.data.train[0], "dev": recipe.data.dev, "test": recipe.data.test[0]}
    for part, corpus in corpora.items():
        assert (corpus.source, corpus.target) == (str(folder / f"{part}.en"), str(folder / f"{part}.iso"))
        assert len(lines(folder / f"{part}.en")) == len(lines(folder / f"{part}.iso")) == PARTS[part]


@pytest.mark.slow
def test_no_day_is_in_two_parts(tmp_path: Path) -> None:
    write_dates(tmp_path)
    days = [day for part in PARTS for day in lines(tmp_path / f"{part}.iso")]
    assert len(days) == len(set(days)) == sum(PARTS.values())


@pytest.mark.slow
def test_the_vocabulary_cuts_dates_where_a_picture_of_attention_is_read(tmp_path: Path) -> None:
    recipe = load_recipe(write_dates(tmp_path))
    assert recipe.data.vocabulary is not None
    sides = [lines(tmp_path / f"train.{language}") for language in ("en", "iso")]
    subwords = train_vocab(*sides, recipe.data.vocabulary).source

    def pieces(text: str) -> list[str]:
        return [subwords.piece(int(token)) for token in subwords.encode([text]).ids]

    assert pieces("the 21st of March 1987") == ["▁the", "▁21", "st", "▁of", "▁March", "▁1987", "</s>"]
    assert pieces("1987-03-24") == ["▁1987", "-", "0", "3", "-", "2", "4", "</s>"]
    years = {pieces(f"{year}-03-24")[0] for year in range(1900, 2050)}
    assert years == {f"▁{year}" for year in range(1900, 2050)}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="give a new folder"):
        write_dates(tmp_path)
    with pytest.raises(ValueError, match="give a new folder"):
        write_dates(tmp_path / "recipe.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]
