"""The content of config.json says whether a model's translations keep what stays the same in any language."""

import pytest

from dragoman.bundle import BundleInfo, open_bundle
from dragoman.bundle.reading import demo_folder
from dragoman.recipes.catalog import library_path, recipe_names
from dragoman.recipes.yaml_document import read_yaml

DEMO = open_bundle("demo").info


@pytest.mark.parametrize(
    ("source", "target", "protects"),
    [
        ("en", "de", True),
        ("zh_Hans", "pt-BR", True),
        ("en", "iso", False),
        ("en", "ipa", False),
        ("en", "en", False),
        ("en", None, False),
        (None, None, False),
    ],
)
def test_protection_is_on_between_two_languages(source: str | None, target: str | None, protects: bool) -> None:
    info = BundleInfo(model=DEMO.model, source_language=source, target_language=target)
    assert info.protects is protects
    for chosen in (True, False):
        assert info.model_copy(update={"protect": chosen}).protects is chosen


def test_a_bundle_without_the_choice_is_written_as_before() -> None:
    assert "protect" not in (demo_folder() / "config.json").read_text(encoding="utf-8")
    assert "protect" not in DEMO.model_dump_json()
    chosen = DEMO.model_copy(update={"protect": False})
    assert BundleInfo.model_validate_json(chosen.model_dump_json()) == chosen


@pytest.mark.parametrize("name", recipe_names())
def test_a_built_in_recipe_protects_if_it_is_between_languages(name: str) -> None:
    recipe = read_yaml(library_path(name)).values
    keys = ("source_language", "target_language", "protect")
    info = BundleInfo(model=DEMO.model, **{key: recipe[key] for key in keys if key in recipe})
    assert info.protects is (name not in ("dates", "g2p", "parsing", "scan", "scan-length"))
