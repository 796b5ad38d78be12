import math
import random

import pyarrow as pa
import pytest

from dragoman.data.pair_cleaning import (
    ENOUGH,
    NARROWEST,
    SPARE,
    LengthProfile,
    estimate_profile,
    is_sentence,
    out_of_proportion,
    repeated,
)


def text(*lines: str) -> pa.LargeStringArray:
    return pa.array(lines, pa.large_string())


def sample(ratio: float, noise: float, n: int = 2000) -> tuple[pa.LargeStringArray, pa.LargeStringArray]:
    draw = random.Random(7)
    lengths = [draw.randrange(20, 200) for _ in range(n)]
    others = [round((length + SPARE) * ratio * math.exp(draw.gauss(0, noise))) - SPARE for length in lengths]
    return text(*("x" * length for length in lengths)), text(*("y" * max(1, length) for length in others))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.3, 3.0])
def test_the_usual_ratio_of_a_language_pair_is_learned_from_a_sample(ratio: float) -> None:
    profile = estimate_profile(*sample(ratio, 0.1))
    assert profile.log_ratio == pytest.approx(math.log(ratio), abs=0.02)
    assert profile.spread == NARROWEST
    assert profile.num_pairs == 2000


def test_a_task_of_widely_different_lengths_gets_wide_bounds() -> None:
    assert estimate_profile(*sample(2.0, 0.6)).spread == pytest.approx(7 * 0.6, rel=0.1)


def test_many_bad_pairs_do_not_move_the_profile_far() -> None:
    source, target = sample(1.0, 0.2)
    bad = 400
    spoilt = estimate_profile(
        pa.concat_arrays([source, text(*["x" * 10] * bad, *[""] * bad)]),
        pa.concat_arrays([target, text(*["y" * 900] * bad, *["y"] * bad)]),
    )
    plain = estimate_profile(source, target)
    assert spoilt.num_pairs == len(source) + bad
    assert spoilt.log_ratio == pytest.approx(plain.log_ratio, abs=0.06)
    assert spoilt.spread < 1.6 * plain.spread


def test_too_few_pairs_say_nothing() -> None:
    assert estimate_profile(*sample(3.0, 0.1, ENOUGH - 1)) == LengthProfile(num_pairs=ENOUGH - 1)
    assert estimate_profile(*sample(3.0, 0.1, ENOUGH)).log_ratio == pytest.approx(math.log(3), abs=0.05)
    assert estimate_profile(text(), text()) == LengthProfile()


def test_lengths_are_compared_with_what_is_usual_and_short_pairs_are_spared() -> None:
    source = text("ID", "n/a", "x" * 90, "x" * 90, "x" * 20, "x" * 200, "x" * 9)
    target = text("Identifikationsnummer", "nicht zutreffend", "y" * 90, "y" * 250, "y" * 200, "y" * 20, "y" * 90)
    usual, longer = LengthProfile(spread=NARROWEST), LengthProfile(log_ratio=math.log(3), spread=NARROWEST)
    assert out_of_proportion(source, target, usual).tolist() == [False, False, False, False, True, True, True]
    assert out_of_proportion(source, target, longer).tolist() == [False, False, False, False, False, True, False]


@pytest.mark.parametrize(
    "line",
    [
        "A man is walking.",
        "the cat sleeps",
        "das ist ein Hund",
        "Это простое предложение.",
        "今天天气很好我们去公园散步吧",
    ],
)
def test_sentences_are_known(line: str) -> None:
    assert is_sentence(line)


@pytest.mark.parametrize(
    "line",
    [
        "42",
        "New York City",
        "Tom",
        "Microsoft Excel 97/2000/XP",
        "https://a.org/b",
        "=SUM(A1;B2)",
        "E-Mail",
        "東京",
        "Ctrl+F5",
    ],
)
def test_numbers_names_and_code_may_be_the_same_in_two_languages(line: str) -> None:
    assert not is_sentence(line)


def test_a_repeated_sentence_is_found_and_counted() -> None:
    source, target = sample(1.0, 0.1, 150)
    lines = ["A man is walking here."] * 50
    source, target = (pa.concat_arrays([text(*lines), side]) for side in (source, target))
    assert repeated(source, target).tolist() == [True] * 50 + [False] * 150
    assert estimate_profile(source, target).identical == 0.25
