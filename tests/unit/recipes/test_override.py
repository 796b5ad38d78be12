import pytest

from dragoman.recipes.yaml_document import apply_override, parse_yaml

TEXT = "name: x\ndata:\n  train:\n    - {source: a, weight: 1}\n  dev: null\n"


def after(*overrides: str) -> object:
    document = parse_yaml(TEXT, "r.yaml")
    for override in overrides:
        document = apply_override(document, override)
    return document.values


def test_a_key_is_set_and_the_rest_stays() -> None:
    train = [{"source": "a", "weight": 1}]
    assert after("name=y") == {"name": "y", "data": {"train": train, "dev": None}}
    assert after("model.d_model=64") == {"name": "x", "data": {"train": train, "dev": None}, "model": {"d_model": 64}}
    assert after("data.dev.source=b") == {"name": "x", "data": {"train": train, "dev": {"source": "b"}}}


def test_entries_of_lists_are_set_by_number_and_appended_at_the_end() -> None:
    assert after("data.train.0.weight=2")["data"]["train"] == [{"source": "a", "weight": 2}]
    assert after("data.train.1.source=b")["data"]["train"] == [{"source": "a", "weight": 1}, {"source": "b"}]
    assert after("data.test.0.source=c", "data.test.0.target=d")["data"]["test"] == [{"source": "c", "target": "d"}]


@pytest.mark.parametrize(
    ("written", "value"),
    [("3e-4", 3e-4), ("no", "no"), ("[a, 2]", ["a", 2]), ("{b: true}", {"b": True}), ("", None), ("a=b", "a=b")],
)
def test_values_are_yaml(written: str, value: object) -> None:
    assert after(f"model.x={written}")["model"]["x"] == value


def test_what_was_set_is_placed_at_the_option() -> None:
    document = apply_override(parse_yaml(TEXT, "r.yaml"), "data.train.0={source: b, target: c}")
    assert document.place(("data", "train", 0, "target")) == "--set data.train.0={source: b, target: c}"
    assert document.place(("data", "train", 0, "source")) == "--set data.train.0={source: b, target: c}"
    assert document.place(("data", "train")) == "r.yaml:3"


def test_the_document_itself_is_left_as_it_was() -> None:
    document = parse_yaml(TEXT, "r.yaml")
    apply_override(document, "data.train.0.weight=2")
    assert document.values["data"]["train"][0]["weight"] == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("name", "--set name: "),
        ("=3", "--set =3: "),
        ("a..b=3", "--set a..b=3: "),
        ("data.train.weight=2", "--set data.train.weight=2: data.train .* data.train.0.weight"),
        ("data.train.2.weight=2", "--set data.train.2.weight=2: data.train "),
        ("name.first=2", "--set name.first=2: name .*first"),
        ("name=[a", r"--set name=\[a: "),
    ],
)
def test_what_cannot_be_set_is_refused(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        after(override)
