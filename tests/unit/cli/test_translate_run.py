"""The columns and fields of a result, and which hypotheses of several sentences make the best texts."""

from itertools import product

import pytest

from dragoman.cli.translate_run import render_line, render_value
from dragoman.translation.document import TextDocument
from dragoman.translation.file_formats import TextLine
from dragoman.translation.results import SentenceTranslation, TextHypothesis, TextTranslation
from dragoman.translation.translate_request import TranslateRequest

HYPOTHESES = [("ja", -0.25, "0-0"), ("doch", -1.123456, "")]


@pytest.mark.parametrize(
    ("options", "line", "value"),
    [
        ({}, "ja", "ja"),
        ({"scores": True}, "ja ||| -0.2500", {"text": "ja", "score": -0.25}),
        ({"alignment": True}, "ja ||| 0-0", {"text": "ja", "alignment": "0-0"}),
        (
            {"nbest": 2},
            "3 ||| ja ||| -0.2500\n3 ||| doch ||| -1.1235",
            [{"text": "ja", "score": -0.25}, {"text": "doch", "score": -1.1235}],
        ),
        (
            {"nbest": 2, "scores": True, "alignment": True},
            "3 ||| ja ||| -0.2500 ||| 0-0\n3 ||| doch ||| -1.1235 ||| ",
            [
                {"text": "ja", "score": -0.25, "alignment": "0-0"},
                {"text": "doch", "score": -1.1235, "alignment": ""},
            ],
        ),
    ],
)
def test_the_requested_columns_are_written(
    options: dict[str, object], line: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    request = TranslateRequest(tmp_path_factory.getbasetemp(), **options)
    hypotheses = HYPOTHESES if request.nbest else HYPOTHESES[:1]
    assert render_line(request, TextLine(4, "", "\n"), hypotheses) == line
    assert render_line(request, TextLine(4, "", "\r\n"), hypotheses) == line.replace("\n", "\r\n")
    assert render_line(request, TextLine(4, "", ""), hypotheses) == line
    assert render_value(request, None, hypotheses) == value


def translation(*sentences: tuple[float, ...]) -> TextTranslation:
    text = "\n".join("x" for _ in sentences)
    hypotheses = [tuple(TextHypothesis(str(score), score, score) for score in scores) for scores in sentences]
    return TextTranslation(TextDocument.of_lines(text), tuple(SentenceTranslation("x", some) for some in hypotheses))


def test_the_best_texts_are_the_best_of_all_choices() -> None:
    text = translation((-0.1, -0.7, -2.0), (-0.3,), (-0.2, -0.25, -0.9))
    every = product(*(enumerate(sentence.hypotheses) for sentence in text.sentences))
    choices = [(sum(w.score for _, w in chosen), tuple(rank for rank, _ in chosen)) for chosen in every]
    expected = sorted(choices, reverse=True)
    for num in (1, 2, 5, 9, 20):
        best = list(text.best(num))
        assert [ranks for _, ranks in best] == [ranks for _, ranks in expected[:num]]
        assert [whole.score for whole, _ in best] == pytest.approx([score for score, _ in expected[:num]])


def test_a_text_without_sentences_has_one_translation_which_is_certain() -> None:
    assert list(translation().best(5)) == [(TextHypothesis("", 0.0, 0.0), ())]
