import random

import numpy as np
import pyarrow as pa
import pytest

from dragoman.text import column_cleaning
from dragoman.text.cleaning import CleanConfig, Problem, find_problems
from dragoman.text.column_cleaning import clean_column

SETTINGS = CleanConfig(max_characters=20)

PARTS = ["a", "B", " ", "  ", "\t", " .", ",", "ö", "o\u0308", "\u0308", "\u200b", "\u200d", "\u2028", "\x85", "\xad"]
PARTS += ["\u202e", "\u200e", "\ufeff", "\ufffd", "▁", "&apos;", "@-@", "@", "<", "/s>", "</s>", "[PAD]", "\\ud800"]
PARTS += ["\x00", "\x92", "漢", "\u212b", "ש", "ก"]


def raw(*lines: bytes) -> pa.LargeBinaryArray:
    return pa.array(lines, pa.large_binary())


@pytest.mark.parametrize(
    ("line", "cleaned", "problems"),
    [
        (b"fine", "fine", []),
        (b"", "", [Problem.EMPTY_SIDE]),
        (b"\r", "", [Problem.EMPTY_SIDE, Problem.CRLF]),
        (b"fine\r", "fine", [Problem.CRLF]),
        (b" \t ", "", [Problem.WHITESPACE]),
        ("\u00a0\u3000".encode(), "", [Problem.WHITESPACE]),
        ("\u200b".encode(), "", [Problem.WHITESPACE, Problem.ZERO_WIDTH]),
        (b"caf\xe9", "", [Problem.INVALID_UTF8]),
        (b"a \xed\xa0\x80 b", "", [Problem.LONE_SURROGATE]),
        (b"\xc3", "", [Problem.INVALID_UTF8]),
        (b"\xa4", "", [Problem.INVALID_UTF8]),
        (b"x" * 20, "x" * 20, []),
        (b"x" * 21, "x" * 21, [Problem.TOO_LONG]),
        ("😀".encode() * 20, "😀" * 20, []),
        (b"x" * 81, "", [Problem.TOO_LONG]),
        (b"\xff" * 81, "", [Problem.TOO_LONG]),
    ],
)
def test_a_line_is_cleaned_and_its_problems_noted_whatever_its_neighbours(line, cleaned, problems) -> None:
    expected = sum(int(problem.bit) for problem in problems)
    for before, after in ((0, 0), (1, 0), (0, 3), (2, 2)):
        side = clean_column(raw(*[b"neighbour"] * before, line, *["schön".encode()] * after), SETTINGS)
        assert side.text.to_pylist() == ["neighbour"] * before + [cleaned] + ["schön"] * after
        assert side.problems.tolist() == [0] * before + [expected] + [0] * after


def test_halves_of_a_letter_at_the_ends_of_two_lines_make_no_letter() -> None:
    side = clean_column(raw(b"x\xc3", b"\xa4x"), SETTINGS)
    assert set(side.problems.tolist()) == {int(Problem.INVALID_UTF8.bit)}


def test_a_slice_of_an_array_is_cleaned_like_the_array_it_equals() -> None:
    lines = raw(b"\xff", b"a  b", b"", "▁c".encode(), b"d\r", b"e", b"\x00")
    for start in range(8):
        for end in range(start, 8):
            here, copied = lines[start:end], raw(*lines.to_pylist()[start:end])
            assert clean_column(here, SETTINGS).text.equals(clean_column(copied, SETTINGS).text)
            assert np.array_equal(clean_column(here, SETTINGS).problems, clean_column(copied, SETTINGS).problems)


def test_the_test_of_all_bytes_at_once_misses_nothing_that_single_lines_show() -> None:
    draw = random.Random(2017)
    lines = ["".join(draw.choices(PARTS, k=draw.randrange(1, 6))) for _ in range(4000)]
    settings = CleanConfig(max_characters=100)
    side = clean_column(raw(*(line.encode() for line in lines)), settings)
    assert side.text.to_pylist() == [find_problems(line, settings)[0] for line in lines]
    found = np.array([find_problems(line, settings)[1] for line in lines], np.uint32)
    blank = np.where([text == "" for text in side.text.to_pylist()], Problem.WHITESPACE.bit, 0).astype(np.uint32)
    assert np.array_equal(side.problems, found | blank)
    assert np.count_nonzero(found) < len(lines)
    again = clean_column(side.text.cast(pa.large_binary()), settings)
    assert again.text.equals(side.text)
    assert not (again.problems & settings.bits("fix")).any()


def test_clean_lines_never_become_python_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(line: str, settings: CleanConfig) -> None:
        raise AssertionError(line)

    monkeypatch.setattr(column_cleaning, "find_problems", fail)
    lines = ["A man, a plan.", "“Schön”, nicht?", "Привет, мир!", "漢字", "a < b & c", "x@y.org [1]"]
    assert clean_column(raw(*(line.encode() for line in lines)), SETTINGS).text.to_pylist() == lines


def test_a_blank_line_is_blank_also_where_spaces_are_kept() -> None:
    keep = CleanConfig(policies={Problem.SPACING: "keep"})
    side = clean_column(raw(b" ", b" \t ", b" a", b"a  b"), keep)
    assert side.text.to_pylist() == [" ", " \t ", " a", "a  b"]
    assert side.problems.tolist() == [int(p.bit) for p in [Problem.WHITESPACE] * 2 + [Problem.SPACING] * 2]
