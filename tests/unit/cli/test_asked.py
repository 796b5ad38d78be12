from pathlib import Path

import pytest

from dragoman.cli.asked import Asked, planned, the_recipe
from dragoman.experiment import speed


def test_a_wrong_key_is_told_before_anything_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("a line\n" * 30, encoding="utf-8")
    tried: list[object] = []
    monkeypatch.setattr(speed, "measured", tried.append)
    changes = ["seed", "training.schedul.rate=1"]
    asked = Asked("train", None, changes, [str(tmp_path / "a.en")], [str(tmp_path / "a.de")], None, "run")
    steps: list[str] = []
    with pytest.raises(ValueError, match=r"^--set seed: .*\n--set training\.schedul\.rate=1: .*did you mean schedule"):
        planned(asked, lambda step, *_: steps.append(step))
    assert (tried, steps) == ([], [])


def test_there_is_one_recipe_or_none() -> None:
    assert the_recipe("train", []) is None
    assert the_recipe("train", [Path("r.yaml")]) == Path("r.yaml")


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (
            ["in/c.en", "c.de"],
            "are c.en and c.de text to train on? That is given with --source and --target:\n"
            "  dragoman doctor --source in/c.en --target c.de",
        ),
        (["r.yaml", "s.yml"], "one recipe at a time, not r.yaml and s.yml; text is given with --source and --target"),
    ],
)
def test_several_files_are_no_recipe(paths: list[str], said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        the_recipe("doctor", [Path(path) for path in paths])
    assert str(refused.value) == said
