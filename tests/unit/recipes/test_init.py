"""The init section of a recipe: a parent gives what the recipe does not say, and may not be contradicted."""

import shutil
from pathlib import Path

import pytest

from dragoman.bundle import demo_folder, open_bundle
from dragoman.models.config import RecurrentShape
from dragoman.recipes.recipe import Recipe, dump_recipe, load_recipe, override_recipe

GOLDEN = Path(__file__).parents[2] / "golden"
SHORT = """\
name: short
data:
  train:
    - {source: a.en, target: a.de}
init: {bundle: demo}
"""


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    path = folder / "r.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, overrides)


def test_the_parent_fills_in_model_languages_and_search(tmp_path: Path) -> None:
    recipe = load(tmp_path, SHORT + "model: {dropout: 0.35}\nvalidation: {samples: 1}\n")
    info = open_bundle(demo_folder()).info
    assert recipe.model.model_dump() == info.model.model_dump(exclude={"source_vocabulary", "target_vocabulary"}) | {
        "dropout": 0.35
    }
    assert (recipe.source_language, recipe.target_language, recipe.data.vocabulary) == ("en", "de", None)
    assert recipe.validation.search.model_dump(mode="json") == info.search
    assert recipe.validation.samples == 1
    assert load(tmp_path, SHORT + "target_language: de-AT\n").target_language == "de-AT"


def test_a_written_recipe_is_the_same_and_can_be_overridden(tmp_path: Path) -> None:
    keep = "init.keep={source: old.en, target: old.de}"
    recipe = load(tmp_path, SHORT, keep, "init.freeze=[encoder]", "model.dropout=0.2")
    assert load(tmp_path, dump_recipe(recipe)) == recipe
    assert override_recipe(recipe, ["seed=7"]).seed == 7
    assert recipe.init is not None
    assert recipe.init.keep is not None
    assert recipe.init.keep.target == str(Path("old.de").absolute())  # relative to the current folder, as in --set


def test_a_parent_is_found_beside_the_recipe_and_may_be_recurrent(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1-recurrent", tmp_path / "models" / "base")
    recipe = load(tmp_path, SHORT.replace("demo", "models/base"))
    assert isinstance(recipe.model, RecurrentShape)
    assert recipe.init is not None
    assert recipe.init.bundle == str(tmp_path / "models" / "base")


def test_few_positions_of_the_parent_limit_the_length_of_sentences(tmp_path: Path) -> None:
    assert load(tmp_path, SHORT.replace("demo", str(GOLDEN / "v1"))).data.clean.max_characters == 64 * 16
    assert load(tmp_path, SHORT).data.clean.max_characters == 4000


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("model: {d_model: 64}\n", r"r\.yaml:6: model\.d_model: .* d_model 256: remove d_model, or init"),
        ("model: {preset: tiny}\n", r"r\.yaml:6: model\.preset: .*: remove preset, or init"),
        ("model: {family: recurrent}\n", r"model\.family: .* family transformer"),
    ],
)
def test_another_model_than_the_parents_is_a_conflict(tmp_path: Path, more: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, SHORT + more)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.vocabulary={size: 4000}", r"data\.vocabulary.*init\.bundle has a vocabulary"),
        ("init.freeze=[encoder, decoder, embeddings]", "nothing is left to train"),
        ("init.freeze=[encoders]", r"init\.freeze\.0.*'embeddings', 'encoder' or 'decoder'"),
        ("init.keep={source: '-'}", "standard input"),
        ("init.bundle=nowhere", r"init\.bundle.*no such folder"),
        ("init.bundel=demo", "did you mean bundle"),
    ],
)
def test_what_does_not_fit_a_parent_is_an_error_with_its_key(tmp_path: Path, override: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, SHORT, override)


def test_the_recipe_of_a_run_can_be_read_without_the_parent(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1", tmp_path / "base")
    recipe = load(tmp_path, SHORT.replace("demo", "base"), f"init.sha256={'a' * 64}")
    text = dump_recipe(recipe)
    shutil.rmtree(tmp_path / "base")
    assert load(tmp_path, text) == recipe
    with pytest.raises(ValueError, match="no such folder"):
        load(tmp_path, SHORT.replace("demo", "base"))
