import pytest
from rich.cells import cell_len

from dragoman.inspection.labels import clean, is_right_to_left, shorten


@pytest.mark.parametrize("letter", ["\x1b", "\n", "\t", "\u202e", "\u2068", "\u2028", "\ud800", "\x00"])
def test_what_moves_the_cursor_or_turns_the_line_becomes_a_dot(letter: str) -> None:
    assert clean(f"a{letter}b") == "a·b"


@pytest.mark.parametrize("label", ["▁March", "می\u200cشود", "日本", "👨\u200d👩\u200d👧", "<b>&amp;"])
def test_other_labels_stay_as_they_are(label: str) -> None:
    assert clean(label) == label


@pytest.mark.parametrize(
    ("label", "expected"), [("March", "March"), ("February", "Febr…"), ("日本語文", "日本…"), ("日本", "日本")]
)
def test_a_long_label_ends_in_dots_and_is_never_too_wide(label: str, expected: str) -> None:
    assert shorten(label, 5) == expected
    assert cell_len(expected) <= 5


@pytest.mark.parametrize(("label", "expected"), [("▁תפוח", True), ("تفاحة", True), ("日本", False), ("12-3", False)])
def test_hebrew_and_arabic_are_right_to_left(label: str, expected: bool) -> None:
    assert is_right_to_left(label) is expected
