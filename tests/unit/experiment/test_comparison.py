"""The notes of the comparison with the parent."""

from dragoman.experiment.comparison import ComparedScore, comparison_event
from dragoman.recipes.recipe import InitSection, KeepSection


def notes(before: float, target: str | None = "old.de") -> list[str]:
    rows = [ComparedScore("dev", 75, 0.5, 0.6, 0.2), ComparedScore("kept", 50, before, before + 0.2, 0.003)]
    init = InitSection(bundle="demo", keep=KeepSection(source="old.en", target=target))
    found: list[str] = comparison_event(rows, init, False)["notes"]
    return found


def test_old_text_that_the_parent_cannot_translate_is_named() -> None:
    (note,) = notes(1.1)
    assert "1.1" in note
    assert "--keep" in note
    assert notes(25.0) == []
    assert notes(1.1, target=None) == notes(25.0, target=None)
