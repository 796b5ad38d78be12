"""Words that are numbers, and words that only look like it."""

import pytest

from dragoman.inspection.number_words import spelled


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("two dogs, three cats", [2, 3]),
        ("Twenty-one", [21]),
        ("three hundred and one", [301]),
        ("a hundred", [100]),
        ("two thousand nineteen", [2019]),
        ("six million people", [6_000_000]),
        ("the third, fourth and twentieth", [3, 4, 20]),
        ("two three and nineteen fifty", [2, 3, 19, 50]),
        ("the sixtieth", [60]),
        ("a dozen", [12]),
        ("einundzwanzig", [21]),
        ("dreihundertfünfundvierzig", [345]),
        ("neunzehnhundertachtzig", [1980]),
        ("eintausendzwei", [1002]),
        ("zweitausend", [2000]),
        ("hundert Leute", [100]),
        ("zwei Millionen", [2_000_000]),
        ("Dreißig, dreissig", [30, 30]),
        ("am zwanzigsten Mai, dem dritten", [20, 3]),
        ("der einundzwanzigste", [21]),
    ],
)
def test_numbers_are_read_in_english_and_german(text: str, numbers: list[int]) -> None:
    assert spelled(text) == numbers


@pytest.mark.parametrize(
    "text",
    ["", "one or a", "ein Hund", "Jahrhundert", "hunderte", "Rest und Zelt", "beachten", "weighty", "ten5t", "und"],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert spelled(text) == []
