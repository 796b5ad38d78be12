"""Our own routes, on the real application with a real engine process."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from service_harness import ServiceHarness, open_harness, write_model

import dragoman
from dragoman.api_schemas import ServiceResponse
from dragoman.serving.app import create_app
from dragoman.serving.config import Limits
from dragoman.serving.keys import ApiKey, generate_key
from dragoman.translation.glossary import Glossary

pytestmark = pytest.mark.slow

STATION, CHURCH = "Where is the station?", "It is behind the church."
DOGS, HOUSES = "two red dogs.", "ten old houses."


def translate(harness: ServiceHarness, app: Any = None, **content: Any) -> ServiceResponse:
    answer = harness.post("/v1/translate", app, **content)
    assert answer.status_code == 200, answer.text
    return ServiceResponse.model_validate(answer.json())


def refused(harness: ServiceHarness, app: Any = None, **content: Any) -> tuple[int, str]:
    answer = harness.post("/v1/translate", app, **content)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["detail"]


def test_it_translates_as_the_library_does_and_names_the_model(demo: ServiceHarness) -> None:
    text = f"{STATION} {CHURCH}\n\n  - {CHURCH}\n"
    answer = translate(demo, texts=[text, STATION])
    library = dragoman.load("demo", engine="ctranslate2", threads=1)
    assert [one.text for one in answer.translations] == library.translate([text, STATION])
    facts = demo.service.models["demo"]
    assert (answer.model.name, answer.model.sha256) == ("demo", facts.sha256)
    assert [sentence.source for sentence in answer.translations[0].sentences] == [STATION, CHURCH, CHURCH]
    assert answer.detected is None


def test_one_text_may_be_given_as_it_is(demo: ServiceHarness) -> None:
    assert translate(demo, texts=STATION) == translate(demo, texts=[STATION])


def test_every_sentence_has_scores_and_a_confidence(small: ServiceHarness) -> None:
    ((sentence,),) = [one.sentences for one in translate(small, texts=DOGS, tokens=True).translations]
    assert sentence.tokens is not None
    assert sentence.confidence == pytest.approx(math.exp(sentence.log_probability / len(sentence.tokens)), abs=1e-4)
    assert 0 < sentence.confidence <= 1
    assert sum(token.log_probability for token in sentence.tokens) == pytest.approx(sentence.log_probability, abs=1e-3)
    assert (sentence.others, sentence.alignment) == ((), None)


def test_several_translations_come_best_first(demo: ServiceHarness) -> None:
    (found,) = translate(demo, texts=STATION, num_best=3).translations
    (sentence,) = found.sentences
    assert len(sentence.others) == 2
    scores = [sentence.score, *(other.score for other in sentence.others)]
    assert scores == sorted(scores, reverse=True)
    assert len({sentence.text, *(other.text for other in sentence.others)}) == 3


def test_words_are_aligned_where_the_model_can(small: ServiceHarness, demo: ServiceHarness, tmp_path: Path) -> None:
    ((sentence,),) = [one.sentences for one in translate(small, texts=DOGS, alignment=True).translations]
    assert sentence.alignment
    assert all(0 <= source < 3 and 0 <= target < 3 for source, target in sentence.alignment)
    ((sentence,),) = [one.sentences for one in translate(demo, texts=STATION, alignment=True).translations]
    assert sentence.alignment == ((0, 0), (1, 1), (2, 2), (3, 3))
    with open_harness({"headless": write_model(tmp_path / "model", "headless", aligns=False)}) as headless:
        assert refused(headless, texts=DOGS, alignment=True) == (
            400,
            "the export has no alignment head: omit alignment, or give another model",
        )


def test_beam_and_penalty_can_be_chosen_within_limits(small: ServiceHarness) -> None:
    ((free,),) = [one.sentences for one in translate(small, texts=DOGS).translations]
    penalty = {"formula": "none"}
    ((plain,),) = [one.sentences for one in translate(small, texts=DOGS, penalty=penalty, beam_size=1).translations]
    assert plain.text == free.text
    assert plain.score == pytest.approx(plain.log_probability)
    assert free.score != pytest.approx(free.log_probability)
    ((long,),) = [one.sentences for one in translate(small, texts=DOGS, penalty={"alpha": 0.0}).translations]
    assert long.score == pytest.approx(long.log_probability)


def test_a_translation_may_be_begun_and_things_protected(small: ServiceHarness) -> None:
    assert translate(small, texts=DOGS, prefix="vier").translations[0].text.startswith("vier")
    source = "two red {dogs}."
    for options in ({"protect": True}, {"protect": None}, {}):
        assert "{dogs}" in translate(small, texts=source, **options).translations[0].text
    assert "{dogs}" not in translate(small, texts=source, protect=False).translations[0].text


def test_without_splitting_a_line_is_one_sentence(small: ServiceHarness) -> None:
    (found,) = translate(small, texts=f"{DOGS} {DOGS}\n{HOUSES}", split=False).translations
    assert [sentence.source for sentence in found.sentences] == [f"{DOGS} {DOGS}", HOUSES]


def test_empty_texts_are_no_error(demo: ServiceHarness) -> None:
    answer = translate(demo, texts=["", "\n \n", "42", "----"])
    assert [one.text for one in answer.translations] == ["", "\n \n", "42", "----"]
    assert [one.sentences for one in answer.translations] == [(), (), (), ()]
    assert translate(demo, texts=[]).translations == ()


def test_languages_choose_the_model_and_one_can_be_found_out(demo: ServiceHarness) -> None:
    assert translate(demo, texts=STATION, source="en", target="de").model.name == "demo"
    found = translate(demo, texts=STATION, source="auto", target="de")
    assert (found.detected, found.model.name) == ("en", "demo")
    unclear = translate(demo, texts="Zwei Hunde.", source="auto")
    assert unclear.detected == "en"  # the likeliest of those that can be read here
    assert refused(demo, texts="Wo ist der Bahnhof?", source="auto")[0] == 404
    german = translate(demo, texts="Wo ist der Bahnhof?", source="auto", target="de")
    assert (german.detected, german.translations[0].text) == ("de", "Wo ist der Bahnhof?")
    assert refused(demo, texts=STATION, source="fr")[0] == 404
    assert refused(demo, texts=STATION, source="auto", target="fr")[0] == 404


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "an unknown model": ({"texts": "a", "model": "nope"}, 404, "unknown model 'nope'"),
    "a path": ({"texts": "a", "model": "../../etc/passwd"}, 404, "unknown model"),
    "half a character": ({"texts": ["a", "\ud800"]}, 400, "text 2: lone surrogate"),
    "a half character to begin with": ({"texts": "a", "prefix": "\ud800"}, 400, "prefix: lone surrogate"),
    "a half character as a name": ({"texts": "a", "model": "\ud800"}, 404, "unknown model"),
    "too many texts": ({"texts": ["a"] * 257}, 413, "257 texts are too many: send at most 256"),
    "too long": ({"texts": "a" * 20_001}, 413, "20,001 characters are too many: send at most 20,000"),
    "too many translations": ({"texts": "a", "num_best": 11}, 400, "num_best <= 10"),
    "too wide a beam": ({"texts": "a", "beam_size": 11}, 400, "beam_size <= 10"),
    "more than the beam": ({"texts": "a", "num_best": 3, "beam_size": 2}, 400, "num_best 3 exceeds beam_size 2"),
    "a prefix of two": ({"texts": "A dog. A cat.", "prefix": "Ein"}, 400, "send one text of one sentence"),
    "no texts": ({}, 422, "texts: Field required"),
    "a number for a text": ({"texts": 7}, 422, "texts."),
    "a word for a number": ({"texts": "a", "num_best": "2"}, 422, "num_best: "),
    "a number for a truth": ({"texts": "a", "tokens": 1}, 422, "tokens: "),
    "nothing of it": ({"texts": "a", "num_best": 0}, 422, "num_best: "),
    "an unknown word": ({"texts": "a", "beams": 4}, 422, "beams: Extra inputs"),
    "an unknown formula": ({"texts": "a", "penalty": {"formula": "x"}}, 422, "penalty.formula: "),
    "a penalty beyond reason": ({"texts": "a", "penalty": {"alpha": 11}}, 422, "penalty.alpha: "),
    "a half character in a key": ({"texts": "a", "\ud800": 1}, 422, "unable to parse raw data as a unicode string"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_request_is_rejected_with_status_and_field(demo: ServiceHarness, name: str) -> None:
    content, status, named = REFUSED[name]
    found, detail = refused(demo, demo.create_app(limits=Limits()), **content)
    assert found == status, detail
    assert named in detail


def test_alignment_goes_with_protection_and_a_prefix(small: ServiceHarness) -> None:
    source = "two red {dogs}."
    (found,) = translate(small, texts=source, alignment=True, prefix="vier", protect=True).translations
    assert found.text.startswith("vier")
    assert "{dogs}" in found.text
    assert found.sentences[0].alignment


def test_a_kept_sentence_is_marked(small: ServiceHarness) -> None:
    (found,) = translate(small, texts="\u200b", split=False).translations
    assert (found.text, found.sentences[0].kept, found.sentences[0].confidence) == ("\u200b", "empty translation", None)
    assert translate(small, texts=DOGS).translations[0].sentences[0].kept is None


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'"a"', b"\xff", b"[" * 100_000, b"1" * 5000])
def test_a_body_that_is_not_an_object_is_rejected(demo: ServiceHarness, body: bytes) -> None:
    answer = demo.request("POST", "/v1/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_invalid_json_is_reported_with_its_position(demo: ServiceHarness) -> None:
    headers = {"content-type": "application/json"}
    answer = demo.request("POST", "/v1/translate", content=b'{"texts": "a" "b"}', headers=headers)
    detail = "the body is not JSON: Expecting ',' delimiter at character 15"
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_the_models_are_listed(demo: ServiceHarness) -> None:
    (model,) = demo.request("GET", "/v1/models").json()["models"]
    assert model == demo.service.models["demo"].model_dump(mode="json")
    assert (model["source"], model["target"], len(model["sha256"])) == ("en", "de", 64)


def test_a_key_has_its_quota(demo: ServiceHarness) -> None:
    key, sha256 = generate_key()
    app = demo.create_app([ApiKey(name="a", sha256=sha256, requests_per_minute=2, characters_per_day=40)])

    def ask(**content: Any) -> tuple[int, str | None]:
        headers = {"authorization": f"Bearer {key}"}
        answer = demo.request("POST", "/v1/translate", app, json=content, headers=headers)
        return answer.status_code, answer.headers.get("retry-after")

    assert ask(texts=STATION) == (200, None)
    assert ask(texts="a" * 30) == (429, "3600")
    assert ask(texts="a") == (200, None)
    status, again = ask(texts="a")
    assert status == 429
    assert again is not None
    assert 1 <= int(again) <= 30
    assert demo.log[-1]["refused"] == "limited"


def test_the_log_has_the_size_of_a_request_but_not_its_texts(demo: ServiceHarness) -> None:
    translate(demo, texts=["Zwetschgen are plums.", "Plums."])
    line = demo.log[-1]
    assert (line["texts"], line["characters"], line["model"], line["status"]) == (2, 27, "demo", 200)
    assert "lums" not in demo.log_text


def test_a_glossary_is_given_with_the_request_and_its_terms_are_listed(small: ServiceHarness) -> None:
    plain = translate(small, texts=[DOGS, HOUSES])
    found = translate(small, texts=[DOGS, HOUSES], glossary={"dog": "Frauen", "boat": "Kahn"})
    (dogs,), (houses,) = (one.sentences for one in found.translations)
    assert "Frauen" in dogs.text
    assert dogs.terms is not None
    assert [(term.source, term.target, term.used) for term in dogs.terms] == [("dog", "Frauen", True)]
    assert found.translations[1].text == plain.translations[1].text
    assert houses.terms == ()
    assert plain.translations[0].sentences[0].terms is None


def test_a_glossary_of_the_service_is_given_by_name(small: ServiceHarness) -> None:
    service = dataclasses.replace(small.service, glossaries={"zoo": Glossary.of({"dog": "Frauen"})})
    app = create_app(service)
    found = translate(small, app, texts=DOGS, glossary="zoo")
    assert found == translate(small, texts=DOGS, glossary={"dog": "Frauen"})
    status, detail = refused(small, app, texts=DOGS, glossary="it")
    assert status == 400
    assert "zoo" in detail
    assert refused(small, texts=DOGS, glossary="zoo")[0] == 400


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (400, {"glossary": {"dog": ""}}),
        (400, {"glossary": {"dog": "a\nb"}}),
        (400, {"glossary": {"dog": "\ud800"}}),
        (400, {"glossary": {"dog": "Hund"}, "prefix": "zwei"}),
        (413, {"glossary": {f"dog{number}": "Hund" for number in range(4)}}),
        (422, {"glossary": {"dog": 3}}),
    ],
)
def test_an_invalid_glossary_is_refused(small: ServiceHarness, status: int, request_: dict[str, Any]) -> None:
    app = small.create_app(limits=Limits(glossary_terms=3))
    assert refused(small, app, texts=DOGS, **request_)[0] == status
