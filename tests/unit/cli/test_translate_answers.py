"""The columns and fields of an answer, and which translations of several sentences go together."""

from itertools import product

import pytest

from dragoman.cli.translate_answers import Found, Shape
from dragoman.cli.translate_work import best_together
from dragoman.decoding.translated import Sentence, Written

ANSWER = (Found("ja", -0.25, "0-0"), Found("doch", -1.123456, ""))


@pytest.mark.parametrize(
    ("shape", "line", "value"),
    [
        (Shape(False, False, False), "ja", "ja"),
        (Shape(False, True, False), "ja ||| -0.2500", {"text": "ja", "score": -0.25}),
        (Shape(False, False, True), "ja ||| 0-0", {"text": "ja", "alignment": "0-0"}),
        (
            Shape(True, False, False),
            "3 ||| ja ||| -0.2500\n3 ||| doch ||| -1.1235",
            [{"text": "ja", "score": -0.25}, {"text": "doch", "score": -1.1235}],
        ),
        (
            Shape(True, True, True),
            "3 ||| ja ||| -0.2500 ||| 0-0\n3 ||| doch ||| -1.1235 ||| ",
            [
                {"text": "ja", "score": -0.25, "alignment": "0-0"},
                {"text": "doch", "score": -1.1235, "alignment": ""},
            ],
        ),
    ],
)
def test_what_is_asked_for_is_seen(shape: Shape, line: str, value: object) -> None:
    assert shape.line(3, ANSWER) == f"{line}\n"
    assert shape.line(3, ANSWER, "\r\n") == f"{line}\n".replace("\n", "\r\n")
    assert shape.line(3, ANSWER, "") == line
    assert shape.value(ANSWER) == value


def sentence(*scores: float) -> Sentence:
    return Sentence("", tuple(Written(str(score), score, score) for score in scores))


def test_the_best_of_several_sentences_are_those_of_all_choices() -> None:
    sentences = [sentence(-0.1, -0.7, -2.0), sentence(-0.3), sentence(-0.2, -0.25, -0.9)]
    every = product(*(enumerate(one.hypotheses) for one in sentences))
    choices = [(sum(w.score for _, w in chosen), tuple(place for place, _ in chosen)) for chosen in every]
    expected = sorted(choices, reverse=True)
    for num in (1, 2, 5, 9, 20):
        found = best_together(sentences, num)
        assert [places for _, places in found] == [places for _, places in expected[:num]]
        assert [score for score, _ in found] == pytest.approx([score for score, _ in expected[:num]])


def test_nothing_has_one_translation_which_is_certain() -> None:
    assert best_together([], 5) == [(0.0, ())]
