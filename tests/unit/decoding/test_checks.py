"""What is given wrongly is refused in one sentence that says what to give."""

import pytest

from dragoman.decoding.checks import check_choice, check_int, check_text

WORDS = ("auto", "torch", "other")


def test_what_is_right_or_not_given_is_let_through() -> None:
    assert [check_choice("engine", given, WORDS) for given in (*WORDS, None)] == [None] * 4
    assert [check_int("beam", given, 7) for given in (1, 7, None)] == [None] * 3
    assert check_int("threads", 10**6) is None
    assert check_text("the source", "") is None


@pytest.mark.parametrize("given", ["Torch", "", "auto ", 3, ["auto"]])
def test_a_word_is_one_of_those_allowed(given: object) -> None:
    with pytest.raises(ValueError, match="give auto, torch or other") as refused:
        check_choice("engine", given, WORDS)
    assert str(refused.value).startswith(f"unknown engine {given}: ")


@pytest.mark.parametrize("given", [0, -1, 2.0, "4", True, [1], float("nan")])
def test_a_number_is_whole_and_one_or_more(given: object) -> None:
    with pytest.raises(ValueError, match="is not a positive integer: give 1 or more") as refused:
        check_int("threads", given)
    assert str(refused.value).startswith(f"threads {given!r} is not")


def test_a_number_may_have_a_limit() -> None:
    with pytest.raises(ValueError, match=r"^beam 1,001 is too large: give 1,000 or less$"):
        check_int("beam", 1_001, 1_000)


@pytest.mark.parametrize("given", [None, b"a", 7, ["a"]])
def test_a_text_is_a_string(given: object) -> None:
    with pytest.raises(ValueError, match=f"^text 2 must be a string, not {type(given).__name__}$"):
        check_text("text 2", given)
