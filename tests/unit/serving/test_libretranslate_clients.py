"""Client libraries that were written for LibreTranslate, unchanged, against a running service."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import ServerException
from libretranslatepy import LibreTranslateAPI
from service_process import ServiceProcess, start_service

from dragoman.serving.keys import add_key

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with start_service("demo", "--engines", "1", "--limit", "wait=60") as running:
        yield running


def test_it_translates_finds_out_and_lists_languages(service: ServiceProcess) -> None:
    client = LibreTranslateAPI(service.url)
    assert client.translate("Where is the station?", "en", "de") == "Wo ist der Bahnhof?"
    assert client.translate("Two lines:\n\n100% & more? <b>", "auto", "de").count("\n\n") == 1
    found = client.detect("Wo ist der Bahnhof? Er ist hinter der Kirche.")
    assert found[0]["language"] == "de"
    assert found[0]["confidence"] > 90
    german = {"code": "de", "name": "German", "targets": []}
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}, german]


def test_what_is_refused_is_an_error_that_it_understands(service: ServiceProcess) -> None:
    client = LibreTranslateAPI(service.url)
    with pytest.raises(HTTPError, match="404") as refused:
        client.translate("Where is the station?", "en", "fr")
    refused.value.close()


def test_another_translates_texts_and_lists(service: ServiceProcess) -> None:
    client = LibreTranslator("en", "de", api_key="none needed", custom_url=service.url + "/")
    assert client.translate("Where is the station?") == "Wo ist der Bahnhof?"
    texts = ["Where is the station?", "Salt & pepper, 100 % + more?"]
    found = client.translate_batch(texts)
    single = LibreTranslateAPI(service.url)
    assert found == [single.translate(text, "en", "de") for text in texts]
    with pytest.raises(ServerException):  # its words for a 404 are its own
        LibreTranslator("en", "fr", api_key="none needed", custom_url=service.url + "/").translate("Where?")


def test_what_stood_in_the_url_is_not_in_the_log(service: ServiceProcess) -> None:
    client = LibreTranslator("en", "de", api_key="secret-1", custom_url=service.url + "/")
    client.translate("Zwetschgen are plums.")
    assert not [line for line in service.lines if "Zwetschgen" in line or "secret-1" in line]


def test_with_a_key_it_is_let_in_and_without_one_it_is_not(tmp_path: Path) -> None:
    key = add_key("shop", tmp_path / "keys.yaml", None, None)
    with start_service(
        "demo", "--engines", "1", "--limit", "wait=60", "--keys", str(tmp_path / "keys.yaml")
    ) as running:
        client = LibreTranslateAPI(running.url + "/", key)
        assert client.translate("Where is the station?", "en", "de") == "Wo ist der Bahnhof?"
        assert client.detect("Where is the station?")[0]["language"] == "en"
        assert client.languages()[0]["code"] == "en"
        for stranger in (LibreTranslateAPI(running.url), LibreTranslateAPI(running.url, "dgm_wrong")):
            assert client.languages() == stranger.languages()
            for ask in (lambda: stranger.translate("a", "en", "de"), lambda: stranger.detect("a")):  # noqa: B023
                with pytest.raises(HTTPError, match="401") as refused:
                    ask()
                refused.value.close()
    assert key not in "\n".join(running.lines)
