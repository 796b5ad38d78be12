"""School arithmetic: a number is rounded as at school, and the next one is computed from the rounded one."""

from decimal import Decimal

import numpy as np
import pytest

from dragoman.inspection.explanation.worksheet import (
    dot_product,
    entropy,
    first_numbers,
    format_number,
    round_number,
    softmax,
    square_root,
    vectors,
)


@pytest.mark.parametrize(
    ("number", "digits", "expected"),
    [
        (0.125, 2, "0.13"),
        (-0.125, 2, "-0.13"),
        (2.5, 0, "3"),
        (-0.00001, 4, "0.0000"),
        (1234567.00004, 4, "1234567.0000"),
        (Decimal("0.00015"), 4, "0.0002"),
    ],
)
def test_a_tie_is_rounded_away_from_zero_and_there_is_no_negative_zero(
    number: float | Decimal, digits: int, expected: str
) -> None:
    assert format_number(round_number(number, digits)) == expected


def test_an_eighth_of_a_printed_number_is_often_a_tie_which_floats_would_get_wrong() -> None:
    """√64 = 8 divides every second number of four digits to a tie at the fifth or to more."""
    assert round(0.0012 / 8, 4) == 0.0001
    assert format_number(round_number(round_number(0.0012) / square_root(64))) == "0.0002"


@pytest.mark.parametrize(("number", "expected"), [(64, "8"), (256, "16"), (24, "4.898979"), (2, "1.414214")])
def test_a_root_is_whole_where_it_is_whole(number: int, expected: str) -> None:
    assert format_number(square_root(number)) == expected


def test_a_vector_shows_its_first_numbers_and_keeps_them_all() -> None:
    numbers = np.array([0.12345, -2.0, 3.0, 4.0, 5.0, 6.0])
    table = vectors(("x", numbers))
    assert (table.columns, table.of, table.is_cut) == (("[0]", "[1]", "[2]", "[3]"), 6, True)
    assert [format_number(cell) for cell in table.rows[0].cells] == ["0.1235", "-2.0000", "3.0000", "4.0000"]
    assert table.rows[0].whole == tuple(numbers.tolist())
    short = vectors(("x", numbers[:3]))
    assert (short.columns, short.is_cut) == (("[0]", "[1]", "[2]"), False)


def test_a_dot_product_is_begun_and_the_rest_is_summed_up() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 4.0, 10.0]), np.array([0.5, 0.25, 1.0, -1.0, 0.1])
    table, sentence = dot_product(("a", "b", "a · b"), a, b)
    assert [format_number(cell) for cell in table.rows[2].cells] == ["0.5000", "0.5000", "3.0000", "-4.0000"]
    assert sentence == "These 4 products add up to 0.0000 and the other 1 to 1.0000: a · b = 1.0000."
    _, biased = dot_product(("a", "b", "q[0]"), a, b, -0.5)
    assert biased.endswith("the other 1 to 1.0000 and the bias is -0.5000: q[0] = 0.5000.")
    _, short = dot_product(("a", "b", "c"), a[:2], b[:2])
    assert short == "These 2 products add up to 1.0000: c = 1.0000."


def test_softmax_by_hand() -> None:
    result = softmax([Decimal("1.0000"), Decimal("2.0000"), Decimal("0.5000")], [True, True, True])
    assert result.shift == 0
    assert [format_number(exp) for exp in result.exps] == ["2.7183", "7.3891", "1.6487"]
    assert format_number(result.total) == "11.7561"
    assert [format_number(weight) for weight in result.weights] == ["0.2312", "0.6285", "0.1402"]


@pytest.mark.parametrize("offset", [-900, -30, 13, 800])
def test_scores_too_large_to_write_are_shifted_and_weigh_the_same(offset: int) -> None:
    scores = [Decimal("1.0000"), Decimal("2.0000"), Decimal("-1.5000")]
    there = softmax([score + offset for score in scores], [True] * 3)
    assert there.shift == 2 + offset
    assert there.weights == softmax(scores, [True] * 3).weights
    assert all(len(format_number(exp)) < 12 for exp in there.exps)


def test_what_is_hidden_weighs_nothing_also_where_all_is_hidden() -> None:
    scores = [Decimal("1.0000"), Decimal("9.0000")]
    assert softmax(scores, [True, False]).weights == (1, 0)
    nothing = softmax(scores, [False, False])
    assert (nothing.total, nothing.weights) == (0, (0, 0))


def test_entropy_is_0_on_one_key_and_1_where_all_are_alike() -> None:
    assert entropy(np.array([1.0, 0.0, 0.0])) == 0
    assert entropy(np.full(7, 1 / 7)) == pytest.approx(1)
    assert entropy(np.array([1.0])) == 0
    assert entropy(np.array([0.5, 0.5, 0.0, 0.0])) == pytest.approx(0.5)


def test_a_vector_may_be_shorter_than_what_is_shown() -> None:
    assert first_numbers(np.array([0.5]), 1) == (Decimal("0.5"),)
