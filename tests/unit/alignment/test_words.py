"""Words are counted as they stand in a line, whatever a model read of it."""

import pytest

from dragoman.alignment.words import word_numbers


@pytest.mark.parametrize(
    ("line", "read", "numbers"),
    [
        ("two red dogs.", ["two red dogs."], [[0, 1, 2]]),
        ("  two\tred  dogs. ", ["two red dogs."], [[0, 1, 2]]),
        ("two\u00a0red dogs.", ["two\u00a0red dogs."], [[0, 1, 2]]),
        ("two \u2060 red", ["two red"], [[0, 2]]),
        ("two\u2581red dogs", ["two red dogs"], [[0, 0, 1]]),
        ("two\x1fred dogs", ["twored dogs"], [[0, 2]]),
        ("gru\u0308ne Ha\u0308user da", ["grüne Häuser da"], [[0, 1, 2]]),
        ("a\u200f שלום b", ["a\u200f שלום b"], [[0, 1, 2]]),
        ("two red dogs. ten old", ["two red", "dogs.", "ten old"], [[0, 1], [2], [3, 4]]),
        ("Donaudampf ahoi", ["Donau", "dampf ahoi"], [[0], [0, 1]]),
        ("", [], []),
    ],
    ids=["plain", "spaces", "no-break", "a word less", "split", "joined", "NFC", "marks", "parts", "cut", "empty"],
)
def test_words_are_those_of_the_line_however_mended(line: str, read: list[str], numbers: list[list[int]]) -> None:
    assert word_numbers(line, read) == numbers
