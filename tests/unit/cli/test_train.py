from pathlib import Path

import pytest

from dragoman.cli.train import single_recipe


def test_there_is_one_recipe_or_none() -> None:
    assert single_recipe("train", []) is None
    assert single_recipe("train", [Path("r.yaml")]) == Path("r.yaml")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["in/c.en", "c.de"], r"c\.en and c\.de .*\n  dragoman doctor --source in/c\.en --target c\.de$"),
        (["r.yaml", "s.yml"], r"r\.yaml and s\.yml.*: give one recipe"),
    ],
)
def test_several_files_are_refused_with_the_right_options(paths: list[str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        single_recipe("doctor", [Path(path) for path in paths])
