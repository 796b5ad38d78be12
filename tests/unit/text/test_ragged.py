"""Rows of different lengths in one array, against plain lists."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.ragged import Ragged

ROWS = st.lists(st.lists(st.integers(4, 65_535), max_size=6), min_size=1, max_size=9)


def ragged(rows: list[list[int]], dtype: type[np.uint16] | type[np.int32] = np.uint16) -> Ragged:
    return Ragged(np.array(list(chain.from_iterable(rows)), dtype), np.cumsum([0, *map(len, rows)], dtype=np.int64))


@given(rows=ROWS)
def test_rows_come_out_as_they_went_in(rows: list[list[int]]) -> None:
    assert ragged(rows).rows() == rows


@given(rows=ROWS, data=st.data())
def test_take_gives_the_chosen_rows_in_that_order(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    taken = ragged(rows).take(np.array(chosen, np.int64))
    assert taken.rows() == [rows[i] for i in chosen]
    assert taken.ids.dtype == np.uint16


@given(rows=ROWS)
def test_padded_fills_every_row_to_the_longest(rows: list[list[int]]) -> None:
    longest = max(map(len, rows))
    padded = ragged(rows).padded(3)
    assert padded.dtype == np.int32
    assert padded.shape == (len(rows), longest)
    assert padded.tolist() == [row + [3] * (longest - len(row)) for row in rows]


def test_lengths_and_rows_are_counted() -> None:
    rows = ragged([[5, 6, 7], [], [8]], np.int32)
    assert rows.num_rows == 3
    assert rows.lengths.tolist() == [3, 0, 1]


def test_no_rows_at_all() -> None:
    empty = ragged([])
    assert empty.num_rows == 0
    assert empty.rows() == []
    assert empty.padded(0).shape == (0, 0)
    assert ragged([[5, 6]]).take(np.array([], np.int64)).rows() == []


def test_row_numbers_of_few_bits_do_not_overflow() -> None:
    rows = ragged([[i] for i in range(4, 260)])
    assert rows.take(np.array([255], np.uint8)).rows() == [[259]]
