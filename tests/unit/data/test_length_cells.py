"""Length cells and their snake order, against a plain sort."""

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.length_cells import count_cells, sort_into_cells

PAIRS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), max_size=40)


def lengths(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def test_the_target_length_goes_up_and_down_in_turns() -> None:
    pairs = [(3, 1), (3, 4), (5, 1), (5, 4), (9, 4), (9, 1)]
    order = sort_into_cells(*lengths(pairs))
    assert [pairs[i] for i in order] == [(3, 1), (3, 4), (5, 4), (5, 1), (9, 1), (9, 4)]


@given(pairs=PAIRS)
def test_the_order_is_a_snake_and_stable(pairs: list[tuple[int, int]]) -> None:
    turn = {source: i for i, source in enumerate(sorted({source for source, _ in pairs}))}

    def place(i: int) -> tuple[int, int]:
        source, target = pairs[i]
        return source, target if turn[source] % 2 == 0 else -target

    assert sort_into_cells(*lengths(pairs)).tolist() == sorted(range(len(pairs)), key=place)


@given(pairs=PAIRS)
def test_cells_count_the_rows_in_the_order_they_stand_in(pairs: list[tuple[int, int]]) -> None:
    source, target = lengths(pairs)
    order = sort_into_cells(source, target)
    expected = [(*cell, len(list(rows))) for cell, rows in groupby(pairs[i] for i in order)]
    assert [tuple(cell) for cell in count_cells(source[order], target[order]).tolist()] == expected
    assert len({cell[:2] for cell in expected}) == len(expected)
