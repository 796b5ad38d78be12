"""Whatever key of a recipe is misspelled, and however, the answer names it."""

import string

from hypothesis import assume, example, given
from hypothesis import strategies as st

from dragoman.recipes.recipe import Recipe
from dragoman.recipes.recipe_errors import all_keys, nearest, validate_document
from dragoman.recipes.yaml_document import Document

SECTIONS = [
    (),
    ("data",),
    ("data", "train", 0),
    ("data", "clean"),
    ("data", "vocabulary"),
    ("model",),
    ("training",),
    ("training", "batch"),
    ("training", "loss"),
    ("training", "optimizer"),
    ("training", "schedule"),
    ("training", "stop"),
    ("training", "snapshots"),
    ("training", "guard"),
    ("validation",),
    ("validation", "search"),
    ("validation", "search", "penalty"),
    ("card",),
]
KEYS = [
    (key.section, key.name)
    for key in all_keys(Recipe)
    if key.section in SECTIONS and key.family in (None, "transformer")
]
ALL_NAMES = {key.name for key in all_keys(Recipe)}


@st.composite
def misspelled(draw: st.DrawFn) -> tuple[tuple[str | int, ...], str, str]:
    """A section, one of its keys, and the key with one slip of a finger."""
    section, name = draw(st.sampled_from(KEYS))
    at = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from(string.ascii_lowercase + "_"))
    slip = draw(st.sampled_from(["left out", "put in", "replaced", "swapped", "capital", "hyphen"]))
    match slip:
        case "left out":
            wrong = name[:at] + name[at + 1 :]
        case "put in":
            wrong = name[:at] + letter + name[at:]
        case "replaced":
            wrong = name[:at] + letter + name[at + 1 :]
        case "swapped":
            wrong = name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
        case "capital":
            wrong = name.capitalize()
        case _:
            wrong = name.replace("_", "-")
    assume(wrong and wrong not in ALL_NAMES)
    return section, name, wrong


def document(section: tuple[str | int, ...], wrong: str) -> Document:
    values = {"name": "x", "data": {"train": [{"source": "a", "target": "b"}]}, "model": {"family": "transformer"}}
    here: object = values
    for part in section:
        here = here.setdefault(part, {}) if isinstance(here, dict) else here[part]
    here[wrong] = 1
    return Document(values, {(): "r.yaml"})


@given(misspelled())
@example((("training",), "ema", "emu"))
def test_a_misspelled_key_is_answered_with_the_key(slip: tuple[tuple[str | int, ...], str, str]) -> None:
    section, name, wrong = slip
    try:
        validate_document(Recipe, document(section, wrong))
        said = ""
    except ValueError as error:
        said = str(error)
    key = ".".join(map(str, (*section, wrong)))
    assert said.startswith(f"r.yaml: {key}: unknown key; did you mean ")
    assert name in said.partition("did you mean ")[2].rstrip("?").replace(",", "").split(), said


@given(st.text(max_size=20), st.lists(st.sampled_from([name for _, name in KEYS]), unique=True))
def test_what_is_nearest_is_always_one_of_those_there_are(name: str, names: list[str]) -> None:
    assert set(nearest(name, names)) <= set(names)
