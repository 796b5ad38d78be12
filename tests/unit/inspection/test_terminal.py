import io
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from dragoman.inspection.terminal import HeatMap
from dragoman.inspection.view import MapView


def printed(matrix: np.ndarray, rows: list[str], columns: list[str], width: int = 80, **console: object) -> list[str]:
    out = io.StringIO() if console.pop("utf8", True) else io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=out, width=width, **console).print(
        HeatMap(MapView(matrix, tuple(rows), tuple(columns), (), "A caption."))
    )
    out.seek(0)
    return out.read().splitlines()


def coloured(matrix: np.ndarray, rows: list[str], columns: list[str], width: int = 80) -> list[str]:
    return printed(matrix, rows, columns, width, force_terminal=True, color_system="truecolor")


def random(rows: int, columns: int) -> tuple[np.ndarray, list[str], list[str]]:
    matrix = np.random.default_rng(3).random((rows, columns))
    return matrix, [f"r{i}" for i in range(rows)], [f"c{i}" for i in range(columns)]


def test_without_colour_a_value_is_a_shade() -> None:
    matrix = np.array([[0.0, 0.2, 0.5], [0.05, 0.35, 0.41]])
    lines = printed(matrix, ["a", "bcd"], ["x", "yz", "w"])
    assert lines[:4] == ["      y   ", "    x z w ", "a     ▒▒██", "bcd   ▓▓██"]
    assert lines[4] == "░ from 0.10  ▒ from 0.20  ▓ from 0.30  █ from 0.40"
    assert lines[5] == "A caption."


def test_where_even_shades_cannot_be_written_a_value_is_a_digit() -> None:
    lines = printed(np.array([[0.0, 0.25, 0.5]]), ["a"], ["x", "y", "z"], utf8=False)
    assert lines[1] == "a   5599"


def test_the_largest_value_is_bright_and_zero_is_dark() -> None:
    lines = coloured(np.array([[0.0, 0.7]]), ["a"], ["x", "y"])
    assert re.findall(r"\x1b\[48;2;(\d+;\d+;\d+)m", lines[1]) == ["0;34;78", "254;232;56"]
    assert "bright = 0.70" in lines[2]


def test_the_colours_rise_in_luminance() -> None:
    lines = coloured(np.linspace(0, 1, 20)[None], ["a"], ["x"] * 20)
    shades = [tuple(map(int, found)) for found in re.findall(r"\[48;2;(\d+);(\d+);(\d+)m", lines[1])]
    luminance = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in shades]
    assert len(luminance) == 20
    assert all(np.diff(luminance) > 0)


def test_wide_letters_keep_the_columns_straight() -> None:
    columns = ["日本", "ab", "語"]
    lines = printed(np.eye(3), ["犬", "b", "猫だ"], columns)
    assert {cell_len(line) for line in lines[:5]} == {len("猫だ") * 2 + 1 + 2 * len(columns)}
    assert lines[1] == "     本b 語"


def test_marks_stand_on_their_letter() -> None:
    assert printed(np.ones((1, 2)), ["a"], ["e\u0301e", "b"])[:2] == ["  e\u0301   ", "  e b "]


def test_right_to_left_labels_are_isolated() -> None:
    lines = printed(np.ones((1, 2)), ["תפח"], ["א", "b"])
    assert lines[0] == "    \u2068א\u2069 b "
    assert lines[1].startswith("\u2068תפח\u2069 █")


def test_long_labels_are_cut() -> None:
    lines = printed(np.ones((1, 1)), ["Donaudampfschifffahrt"], ["Donaudampfschifffahrt"])
    assert [line.strip() for line in lines[:8]] == [*"Donauda", "…"]
    assert lines[8] == "Donaudampfsch… ██"


def test_a_token_cannot_speak_to_the_terminal() -> None:
    lines = printed(np.ones((1, 1)), ["\x1b[31m\r\n"], ["[bold]x"])
    assert lines[-3].startswith("·[31m·· ")
    assert "".join(line.strip() for line in lines[:-3]) == "[bold]x"


def test_a_map_of_more_than_60_tokens_has_two_rows_on_a_line_in_half_blocks() -> None:
    lines = coloured(*random(61, 40))
    assert sum("▀" in line for line in lines) == 31
    assert all(line.count("▀") == 40 for line in lines if "▀" in line)
    assert not any("▀" in line for line in coloured(*random(60, 30)))


def test_what_does_not_fit_is_thinned_and_no_peak_is_lost() -> None:
    matrix, rows, columns = random(50, 200)
    matrix[37, 123] = 9
    lines = printed(matrix, rows, columns, width=80)
    assert "a cell is the largest of 4 x 4" in " ".join(lines)
    cells = [line[4:] for line in lines if line.startswith("r")]
    assert len(cells) == 13
    assert [(i, line.index("█")) for i, line in enumerate(cells) if "█" in line] == [(37 // 4, 123 // 4)]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (200, 190), (3, 70), (90, 2), (61, 64)])
@pytest.mark.parametrize("width", [30, 80, 120])
def test_every_line_fits_the_terminal(rows: int, columns: int, width: int) -> None:
    matrix, row_labels, _ = random(rows, columns)
    lines = printed(matrix, [f"a long label {label}" for label in row_labels], ["日本"] * columns, width)
    assert max(map(cell_len, lines)) <= width


def test_a_map_of_nothing_but_zeros_is_dark() -> None:
    lines = printed(np.zeros((1, 2)), ["a"], ["x", "y"])
    assert lines[1] == "a     "
    assert "every value is 0" in lines
