"""Names of languages, and which one a text is in."""

import sys

import pytest

from dragoman.serving import languages
from dragoman.serving.errors import InvalidRequestError
from dragoman.serving.languages import detect_languages, match_language
from dragoman.text.language_names import NAMES, language_name

TEXTS = {
    "en": "Where is the station? It is behind the church.",
    "de": "Wo ist der Bahnhof? Er ist gleich hinter der Kirche.",
    "fr": "Où est la gare ? Elle est juste derrière l'église.",
    "ru": "Где находится вокзал? Он сразу за церковью.",
    "zh": "火车站在哪里。就在教堂后面。",
}


@pytest.mark.parametrize("code", TEXTS)
def test_a_language_is_found_out_with_probabilities_that_sum_to_one(code: str) -> None:
    found = detect_languages(TEXTS[code])
    assert found[0][0] == code
    assert found[0][1] > 0.7
    assert sum(likely for _, likely in found) == pytest.approx(1.0, abs=1e-3)
    assert [likely for _, likely in found] == sorted((likely for _, likely in found), reverse=True)


@pytest.mark.parametrize("text", ["", " \n", "42", "🙂", "\0", "a" * 100_000])
def test_whatever_the_text_is_there_is_a_guess(text: str) -> None:
    assert detect_languages(text)


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("pt-BR", "Portuguese"), ("zh_Hans", "Chinese"), ("DE", "German"), ("q", "q")],
)
def test_a_code_has_a_name_or_is_its_own(code: str, name: str) -> None:
    assert language_name(code) == name


def test_names_are_given_for_codes_as_they_are_looked_up() -> None:
    assert {code: name for code, name in NAMES.items() if language_name(code) != name or not name.istitle()} == {}


def test_without_the_detector_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    languages._identifier.cache_clear()
    try:
        with pytest.raises(InvalidRequestError, match=r"give the source language, or install 'dragoman\[detect\]'"):
            detect_languages("Where?")
    finally:
        languages._identifier.cache_clear()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("de-DE", "de"),
        ("de_AT", "de"),
        ("PT-br", "pt-BR"),
        ("pt", "pt"),
        ("xx-YY", "xx-YY"),
    ],
)
def test_codes_are_matched_as_clients_write_them(given: str, meant: str) -> None:
    assert match_language(given, ["en", "de", "pt-BR"]) == meant
