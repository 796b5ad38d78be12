"""DeepL's routes with requests that its official client does not send: forms, Weblate's and wagtail-localize's."""

from typing import Any

import pytest
from service_harness import ServiceHarness

from dragoman.serving.config import Limits
from dragoman.serving.keys import ApiKey, generate_key

KEY, SHA256 = generate_key()
KNOWN = [ApiKey(name="shop", sha256=SHA256)]
TERMS = {
    "name": "Trains",
    "source_lang": "EN",
    "target_lang": "DE",
    "entries": "station\tHalt",
    "entries_format": "tsv",
}


def texts(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["text"] for one in answer.json()["translations"]]


@pytest.mark.slow
def test_a_form_has_several_texts_and_switches(demo: ServiceHarness) -> None:
    form = {"text": ["Where is the station?", "Two dogs."], "target_lang": "de", "preserve_formatting": "1"}
    answer = demo.request("POST", "/v2/translate", data={**form, "split_sentences": "0", "show_billed_characters": "1"})
    assert texts(answer)[0] == "Wo ist der Bahnhof?"
    assert [one["billed_characters"] for one in answer.json()["translations"]] == [21, 9]
    blank = demo.request("POST", "/v2/translate", data={**form, "text": ["", "Two dogs."]})
    assert [bool(text) for text in texts(blank)] == [False, True]
    plain = demo.request("POST", "/v2/translate", data=form).json()["translations"]
    assert [set(one) for one in plain] == [{"text", "detected_source_language"}] * 2


@pytest.mark.slow
def test_weblate_translates_with_placeholders(demo: ServiceHarness) -> None:
    """As in weblate/machinery/deepl.py of Weblate 5."""
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    app = demo.create_app(KNOWN, Limits(wait=60, seconds=60))
    listed = [
        demo.request("GET", "/v2/languages", app, params={"type": kind}, headers=headers)
        for kind in ("source", "target")
    ]
    assert [[one["language"] for one in answer.json()] for answer in listed] == [["EN"], ["DE"]]
    pairs = demo.request("GET", "/v2/glossary-language-pairs", app, headers=headers).json()
    assert pairs == {"supported_languages": [{"source_lang": "en", "target_lang": "de"}]}
    assert demo.request("POST", "/v2/glossaries", app, headers=headers, json=TERMS).status_code == 201
    (stored,) = demo.request("GET", "/v2/glossaries", app, headers=headers).json()["glossaries"]
    request = {
        "text": ['Where is the station in <x id="24"></x>?', "Salt &amp; &lt;pepper&gt;"],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "glossary_id": stored["glossary_id"],
        "model_type": "prefer_quality_optimized",
    }
    first, second = texts(demo.request("POST", "/v2/translate", app, headers=headers, json=request))
    assert first.count('<x id="24"></x>') == 1
    assert "Halt" in first
    assert "&amp;" in second
    assert "&lt;" in second
    assert demo.request("DELETE", f"/v2/glossaries/{stored['glossary_id']}", app, headers=headers).status_code == 204


@pytest.mark.slow
def test_wagtail_localize_sends_its_key_in_the_form(demo: ServiceHarness) -> None:
    """As in wagtail_localize/machine_translators/deepl.py."""
    app = demo.create_app(KNOWN, Limits(wait=60, seconds=60))
    form = {"text": ['Where is the <a id="a1">station</a>?', "Two dogs."], "tag_handling": "xml"}
    form |= {"auth_key": KEY, "source_lang": "EN", "target_lang": "DE"}
    found = texts(demo.request("POST", "/v2/translate", app, data=form))
    assert found[0] == 'Wo ist der <a id="a1">Bahnhof</a>?'
    assert len(found) == 2
    assert demo.request("POST", "/v2/translate", app, data={**form, "auth_key": "wrong"}).status_code == 403


@pytest.mark.parametrize(
    "content",
    [
        {"target_lang": "DE"},
        {"text": [], "target_lang": "DE"},
        {"text": [1], "target_lang": "DE"},
        {"text": ["a"]},
        {"text": ["a"], "target_lang": "DE", "tag_handling": "sgml"},
        {"text": ["a"], "target_lang": "DE", "split_sentences": "2"},
        {"text": ["a"], "target_lang": "DE", "formality": "less"},
        {"text": ["a"], "target_lang": "DE", "glossary_id": "a"},
        {"text": ["a"], "target_lang": "DE", "ignore_tags": [1]},
        {"text": ["\ud800"], "target_lang": "DE"},
    ],
)
def test_an_invalid_request_is_refused_with_a_message(idle: ServiceHarness, content: dict[str, Any]) -> None:
    answer = idle.post("/v2/translate", **content)
    assert (answer.status_code, list(answer.json())) == (400, ["message"])


@pytest.mark.parametrize(
    "content",
    [{"name": " "}, {"entries": ""}, {"entries": "a"}, {"entries": "a\tb\na\tc"}, {"entries_format": "json"}],
)
def test_an_invalid_glossary_is_refused(idle: ServiceHarness, content: dict[str, str]) -> None:
    answer = idle.post("/v2/glossaries", **{**TERMS, **content})
    assert (answer.status_code, list(answer.json())) == (400, ["message"])
    assert idle.request("GET", "/v2/glossaries").json() == {"glossaries": []}


def test_stored_terms_are_limited_over_all_glossaries(idle: ServiceHarness) -> None:
    app = idle.create_app(KNOWN, Limits(stored_terms=2))
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}

    def store(entries: str, method: str = "POST", path: str = "/v2/glossaries") -> Any:
        return idle.request(method, path, app, headers=headers, json={**TERMS, "entries": entries})

    made = store("a\tb").json()
    assert store("a\tb\nc\td").status_code == 456
    dictionary = f"/v3/glossaries/{made['glossary_id']}/dictionaries"
    assert store("a\tb\nc\td\ne\tf", "PUT", dictionary).status_code == 456
    assert store("a\tb\nc\td", "PUT", dictionary).json()["entry_count"] == 2
    assert store("a\tb").status_code == 456


def test_all_methods_of_a_path_are_named(idle: ServiceHarness) -> None:
    answer = idle.request("OPTIONS", "/v2/glossaries")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


def test_unknown_languages_and_paths_have_messages(idle: ServiceHarness) -> None:
    unknown = idle.post("/v2/translate", text=["a"], source_lang="en", target_lang="de")
    assert (unknown.status_code, list(unknown.json())) == (400, ["message"])
    assert idle.request("GET", "/v2/document").json() == {"message": "Not Found"}
