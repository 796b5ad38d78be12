"""The official client of DeepL from PyPI, unchanged, against a running service."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from service_process import ServiceProcess, start_service

from dragoman.serving.keys import add_key

pytestmark = pytest.mark.slow

STATION = "Where is the station?"
BAHNHOF = "Wo ist der Bahnhof?"
PATIENT = ("--engines", "1", "--limit", "wait=60", "--limit", "stored_glossaries=2", "--limit", "characters=2000")


@pytest.fixture(autouse=True)
def _directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    made = {"shop": add_key("shop", file), "other": add_key("other", file)}
    return {**made, "poor": add_key("poor", file, characters_per_day=30), "file": str(file)}


@pytest.fixture(scope="module")
def service(keys: dict[str, str]) -> Iterator[ServiceProcess]:
    with start_service("demo", *PATIENT, "--keys", keys["file"]) as running:
        yield running


@pytest.fixture
def client(service: ServiceProcess, keys: dict[str, str]) -> deepl.DeepLClient:
    return deepl.DeepLClient(keys["shop"], server_url=service.url)


def test_a_text_is_translated_and_its_characters_are_counted(client: deepl.DeepLClient) -> None:
    before = client.get_usage().character.count
    found = client.translate_text(STATION, target_lang="DE")
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.detected_source_lang, found.billed_characters) == (BAHNHOF, "EN", len(STATION))
    usage = client.get_usage()
    assert usage.character.count == (before or 0) + len(STATION)
    assert not usage.any_limit_reached


def test_a_source_is_detected_honestly(client: deepl.DeepLClient) -> None:
    german = "Das Haus ist alt und der Hund schläft im Garten."
    found = client.translate_text(german, target_lang="DE")
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.detected_source_lang) == (german, "DE")
    with pytest.raises(deepl.DeepLException, match="French") as refused:
        client.translate_text("Bonjour tout le monde, comment allez-vous ?", target_lang="DE")
    assert refused.value.http_status_code == 400


def test_a_list_is_translated_in_order(client: deepl.DeepLClient) -> None:
    options: dict[str, Any] = {"context": "Trains.", "preserve_formatting": True, "formality": "prefer_less"}
    found = client.translate_text([STATION, "", "Two dogs."], source_lang="EN", target_lang="DE", **options)
    assert isinstance(found, list)
    assert [one.text for one in found[:2]] == [BAHNHOF, ""]
    assert "Hunde" in found[2].text


def test_sentences_are_split_as_requested(client: deepl.DeepLClient) -> None:
    text = "Where is\nthe station?"
    split = deepl.SplitSentences
    joined = client.translate_text(text, source_lang="EN", target_lang="DE", split_sentences=split.NO_NEWLINES)
    lines = client.translate_text(text, source_lang="EN", target_lang="DE", split_sentences=split.OFF)
    assert str(joined) == BAHNHOF
    assert str(lines).count("\n") == 1


def test_tags_of_xml_stay_and_ignored_elements_are_not_translated(client: deepl.DeepLClient) -> None:
    text = 'Where is the <b id="1">station</b>? <x>Two dogs.</x> &amp; more'
    found = client.translate_text(text, source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags=["x"])
    assert '<b id="1">Bahnhof</b>?' in str(found)
    assert "<x>Two dogs.</x>" in str(found)
    assert "&amp;" in str(found)
    assert "root" not in str(found)
    translated = client.translate_text(text, source_lang="EN", target_lang="DE", tag_handling="xml")
    assert "<x>Two dogs.</x>" not in str(translated)


def test_tags_of_html_stay(client: deepl.DeepLClient) -> None:
    page = '<p class="a">Where is the <i>station</i>?<br></p><code>Two dogs.</code>'
    found = client.translate_text(page, source_lang="EN", target_lang="DE", tag_handling="html")
    assert str(found) == '<p class="a">Wo ist der <i>Bahnhof</i>?<br></p><code>Two dogs.</code>'


def test_tags_split_texts_as_requested(client: deepl.DeepLClient) -> None:
    options: dict[str, Any] = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    text = "<par>Where is the station?<s/>Two dogs.</par>"
    found = client.translate_text(text, **options, splitting_tags=["s"], outline_detection=False)
    assert str(found).startswith("<par>Wo ist der Bahnhof?<s/>Zwei")


def test_languages_are_listed(client: deepl.DeepLClient) -> None:
    assert [(one.code, one.name) for one in client.get_source_languages()] == [("EN", "English")]
    (target,) = client.get_target_languages()
    assert (target.code, target.name, target.supports_formality) == ("DE", "German", False)
    (pair,) = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("en", "de")


def test_a_glossary_is_created_used_listed_and_deleted(client: deepl.DeepLClient) -> None:
    made = client.create_glossary("Railways", "EN", "DE", {"station": "Halt", "train": "Bahn"})
    assert (made.name, made.source_lang, made.target_lang, made.entry_count) == ("Railways", "EN", "DE", 2)
    assert made.ready
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert client.get_glossary_entries(made) == {"station": "Halt", "train": "Bahn"}
    assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
    for options in ({}, {"tag_handling": "xml"}):
        found = client.translate_text(STATION, source_lang="EN", target_lang="DE", glossary=made, **options)
        assert "Halt" in str(found)
    assert "Halt" in str(client.translate_text_with_glossary(STATION, made))
    client.delete_glossary(made)
    assert client.list_glossaries() == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="no such glossary"):
        client.translate_text(STATION, source_lang="EN", target_lang="DE", glossary=made.glossary_id)


def test_a_glossary_of_csv_is_read(client: deepl.DeepLClient) -> None:
    made = client.create_glossary_from_csv("CSV", "EN", "DE", 'station,"Halt",en,de\n"train, fast",Eilzug\n')
    assert client.get_glossary_entries(made) == {"station": "Halt", "train, fast": "Eilzug"}
    client.delete_glossary(made)


def test_a_multilingual_glossary_is_changed(client: deepl.DeepLClient) -> None:
    terms = MultilingualGlossaryDictionaryEntries
    made = client.create_multilingual_glossary(
        "Both", [terms("EN", "DE", {"station": "Halt"}), terms("DE", "EN", {"Halt": "stop"})]
    )
    assert [(one.source_lang, one.entry_count) for one in made.dictionaries] == [("EN", 1), ("DE", 1)]
    assert client.list_glossaries() == []  # those of one pair
    assert [one.name for one in client.list_multilingual_glossaries()] == ["Both"]
    found = client.translate_text(STATION, source_lang="EN", target_lang="DE", glossary=made)
    assert "Halt" in str(found)
    assert client.update_multilingual_glossary_name(made, "New").name == "New"
    changed = client.update_multilingual_glossary_dictionary(made, terms("EN", "DE", {"train": "Bahn"}))
    assert {one.source_lang: one.entry_count for one in changed.dictionaries} == {"EN": 2, "DE": 1}
    (listed,) = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert sorted(str(listed.entries).splitlines()) == ["station\tHalt", "train\tBahn"]
    assert client.replace_multilingual_glossary_dictionary(made, terms("EN", "DE", {"a": "b"})).entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, source_lang="DE", target_lang="EN")
    assert len(client.get_multilingual_glossary(made.glossary_id).dictionaries) == 1
    client.delete_multilingual_glossary(made)
    assert client.list_multilingual_glossaries() == []


def test_several_glossaries_apply_in_their_order(client: deepl.DeepLClient) -> None:
    made = [client.create_glossary("a", "EN", "DE", {"station": "Halt"})]
    made.append(client.create_glossary("b", "EN", "DE", {"station": "Posten", "dogs": "Doggen"}))
    found = client.translate_text(f"{STATION} Two dogs.", source_lang="EN", target_lang="DE", glossary_ids=made)
    assert "Halt" in str(found)
    assert "Doggen" in str(found)
    for one in made:
        client.delete_glossary(one)


def test_a_key_sees_its_own_glossaries_and_may_store_so_many(
    client: deepl.DeepLClient, service: ServiceProcess, keys: dict[str, str]
) -> None:
    other = deepl.DeepLClient(keys["other"], server_url=service.url)
    made = [client.create_glossary(name, "EN", "DE", {"station": "Halt"}) for name in "ab"]
    with pytest.raises(deepl.QuotaExceededException):
        client.create_glossary("c", "EN", "DE", {"station": "Halt"})
    assert other.list_glossaries() == []
    for ask in (other.get_glossary, other.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            ask(made[0].glossary_id)
    for one in made:
        client.delete_glossary(one)


Wrong = Callable[[deepl.DeepLClient], Any]
WRONG: dict[str, tuple[Wrong, int]] = {
    "a language that is not served": (lambda client: client.translate_text("a", target_lang="FR"), 400),
    "a formality": (lambda client: client.translate_text("a", target_lang="DE", formality="more"), 400),
    "XML that is not well-formed": (
        lambda client: client.translate_text("<b>a", target_lang="DE", tag_handling="xml"),
        400,
    ),
    "XML that defines entities": (
        lambda client: client.translate_text(
            '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', target_lang="DE", tag_handling="xml"
        ),
        400,
    ),
    "instructions": (lambda client: client.translate_text("a", target_lang="DE", custom_instructions=["b"]), 400),
    "too much text": (lambda client: client.translate_text("a " * 1001, target_lang="DE"), 413),
    "too many bytes": (lambda client: client.translate_text("a" * (1 << 20), target_lang="DE"), 413),
    "a glossary with a term twice": (
        lambda client: client.create_glossary("a", "EN", "DE", {"a  b": "c", "a b": "c"}),
        400,
    ),
    "a glossary in another format": (lambda client: client.create_glossary_from_csv("a", "EN", "DE", "a"), 400),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_is_an_error_of_the_client(name: str, client: deepl.DeepLClient) -> None:
    ask, status = WRONG[name]
    with pytest.raises(deepl.DeepLException) as refused:
        ask(client)
    assert refused.value.http_status_code == status
    assert "message" in str(refused.value)


def test_a_wrong_key_and_a_used_quota_have_their_own_errors(service: ServiceProcess, keys: dict[str, str]) -> None:
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=service.url).translate_text(STATION, target_lang="DE")
    poor = deepl.DeepLClient(keys["poor"], server_url=service.url)
    assert str(poor.translate_text(STATION, target_lang="DE")) == BAHNHOF
    with pytest.raises(deepl.QuotaExceededException):
        poor.translate_text(STATION, target_lang="DE")
    assert (poor.get_usage().character.count, poor.get_usage().character.limit) == (len(STATION), 30)


def test_a_service_without_keys_takes_any_key(tmp_path: Path) -> None:
    with start_service("demo", "--engines", "1", "--limit", "wait=60") as running:
        client = deepl.DeepLClient("any", server_url=running.url)
        assert str(client.translate_text(STATION, target_lang="DE")) == BAHNHOF
        made = client.create_glossary("Railways", "EN", "DE", {"station": "Halt"})
        assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
        assert client.get_usage().character.valid
