"""What is given wrongly is refused in one sentence that says what to give."""

import pytest

from dragoman.decoding.given import a_number, a_text, a_word

WORDS = ("auto", "torch", "other")


def test_what_is_right_or_not_given_is_let_through() -> None:
    assert [a_word("engine", given, WORDS) for given in (*WORDS, None)] == [None] * 4
    assert [a_number("beam", given, 7) for given in (1, 7, None)] == [None] * 3
    assert a_number("threads", 10**6) is None
    assert a_text("the source", "") is None


@pytest.mark.parametrize("given", ["Torch", "", "auto ", 3, ["auto"]])
def test_a_word_is_one_of_those_allowed(given: object) -> None:
    with pytest.raises(ValueError, match="give auto, torch or other") as refused:
        a_word("engine", given, WORDS)
    assert str(refused.value).startswith(f"engine {given}: ")


@pytest.mark.parametrize("given", [0, -1, 2.0, "4", True, [1], float("nan")])
def test_a_number_is_whole_and_one_or_more(given: object) -> None:
    with pytest.raises(ValueError, match="give a whole number, 1 or more") as refused:
        a_number("threads", given)
    assert str(refused.value).startswith(f"threads {given!r}: ")


def test_a_number_may_have_a_limit() -> None:
    with pytest.raises(ValueError, match=r"^beam 1,001: give 1,000 at most; more takes long and helps nobody$"):
        a_number("beam", 1_001, 1_000)


@pytest.mark.parametrize("given", [None, b"a", 7, ["a"]])
def test_a_text_is_a_string(given: object) -> None:
    with pytest.raises(ValueError, match=f"^text 2 must be a string, not {type(given).__name__}$"):
        a_text("text 2", given)
