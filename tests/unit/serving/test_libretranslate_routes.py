"""LibreTranslate's routes, in its words."""

from typing import Any

import pytest
from service_harness import ServiceHarness

from dragoman.serving.config import Limits
from dragoman.serving.keys import ApiKey, generate_key

pytestmark = pytest.mark.slow

STATION = "Where is the station?"


def translated(harness: ServiceHarness, **content: Any) -> dict[str, Any]:
    answer = harness.post("/translate", source=content.pop("source", "en"), target="de", **content)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_text_gives_a_text_and_a_list_a_list_and_nothing_else(demo: ServiceHarness) -> None:
    (german,) = demo.translate(STATION)
    assert translated(demo, q=STATION) == {"translatedText": german}
    assert translated(demo, q=[STATION, ""]) == {"translatedText": [german, ""]}
    assert translated(demo, q=[]) == {"translatedText": []}


def test_the_answer_says_in_its_head_which_model_it_was(demo: ServiceHarness) -> None:
    answer = demo.post("/translate", q=STATION, source="en", target="de")
    assert answer.headers["x-model-sha256"] == demo.service.models["demo"].sha256


def test_alternatives_are_further_translations(demo: ServiceHarness) -> None:
    one = translated(demo, q=STATION, alternatives=2)
    assert len({one["translatedText"], *one["alternatives"]}) == 3
    several = translated(demo, q=[STATION, "No."], alternatives=2, format="text")
    assert several["alternatives"][0] == one["alternatives"]
    assert [len(some) for some in several["alternatives"]] == [2, 2]


def test_html_keeps_its_tags_and_only_text_is_translated(demo: ServiceHarness) -> None:
    german, morning = demo.translate(STATION, "Good morning.")
    page = f'<p class="a &gt; b">{STATION}</p>\n<pre>{STATION}</pre><!-- c --><ul><li><b>Good morning.</b><li></ul>'
    one = translated(demo, q=page, format="html", alternatives=1)
    assert one["translatedText"] == page.replace(f">{STATION}</p>", f">{german}</p>").replace("Good morning.", morning)
    assert "<pre>" in one["alternatives"][0]
    several = translated(
        demo, q=[page, "", "<br>", "The <i>old</i> house is &lt;{name}&gt;."], format="html", source="auto"
    )
    assert several["translatedText"][:3] == [one["translatedText"], "", "<br>"]
    assert [several["translatedText"][3].count(part) for part in ("<i>", "</i>", "&lt;")] == [1, 1, 1]
    assert several["detectedLanguage"][0]["language"] == "en"


def test_the_language_can_be_found_out(demo: ServiceHarness) -> None:
    one = translated(demo, q=STATION, source="auto")
    assert one["detectedLanguage"]["language"] == "en"
    assert 50 < one["detectedLanguage"]["confidence"] <= 100
    several = translated(demo, q=[STATION, STATION], source="auto")
    assert several["detectedLanguage"] == [one["detectedLanguage"]] * 2


FRENCH = "Bonjour tout le monde, comment allez-vous ?"


def test_a_text_in_the_target_language_stays_as_it_is(demo: ServiceHarness) -> None:
    german = "Das  Haus ist alt,\n und der Hund schläft im Garten."
    found = translated(demo, q=german, source="auto", alternatives=1)
    assert (found["translatedText"], found["alternatives"]) == (german, [german])
    assert found["detectedLanguage"]["language"] == "de"
    assert found["detectedLanguage"]["confidence"] > 90
    assert translated(demo, q=german, source="de")["translatedText"] == german
    page = '<p class="a">Das <b>Haus</b> ist alt &amp; der Hund schläft im <i>Garten</i>.<br></p>'
    assert translated(demo, q=page, source="auto", format="html")["translatedText"] == page


def test_a_text_in_another_language_is_refused_unless_the_source_is_given(demo: ServiceHarness) -> None:
    refused = demo.post("/translate", q=FRENCH, source="auto", target="de")
    assert (refused.status_code, list(refused.json())) == (404, ["error"])
    assert "French" in refused.json()["error"]
    assert demo.post("/translate", q=FRENCH, source="en", target="de").status_code == 200
    assert translated(demo, q="Two dogs.", source="auto")["detectedLanguage"]["language"] == "en"  # too short to tell


def test_suggestions_are_disabled(idle: ServiceHarness) -> None:
    answer = idle.request("POST", "/suggest", data={"q": "a", "s": "b", "source": "en", "target": "de"})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert idle.request("GET", "/frontend/settings").json()["suggestions"] is False


WEBLATE = {"q": "Where is the [X26X]?", "source": "en", "target": "de", "format": "text"}
WAGTAIL = {"q": ['Where is the <a id="a1">station</a>?', "Two dogs."], "source": "en", "target": "de", "format": "html"}


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("how", ["json", "data", "files"])
def test_weblate_and_wagtail_localize_are_answered(demo: ServiceHarness, has_keys: bool, how: str) -> None:
    """As in weblate/machinery/libretranslate.py and wagtail_localize/machine_translators/libretranslate.py.

    Both may send an empty key.
    """
    key, sha256 = generate_key()
    keys = [ApiKey(name="shop", sha256=sha256)] if has_keys else None
    app = demo.create_app(keys, Limits(wait=60, seconds=60))
    known = key if has_keys else ""

    def send(content: dict[str, Any], api_key: str) -> Any:
        content = {**content, "api_key": api_key}
        form = {name: (None, value) for name, value in content.items()} if how == "files" else content
        return demo.request("POST", "/translate", app, **{how: form})

    assert {one["code"] for one in demo.request("GET", "/languages", app).json()} == {"en", "de"}
    assert "[X26X]" in send(WEBLATE, known).json()["translatedText"]
    if how == "json":
        assert send(WAGTAIL, known).json()["translatedText"][0] == 'Wo ist der <a id="a1">Bahnhof</a>?'
    assert send(WEBLATE, "wrong").status_code == (401 if has_keys else 200)


def test_a_form_does_as_well(demo: ServiceHarness) -> None:
    (german,) = demo.translate("Über & out? 100% 🙂")
    form = {"q": "Über & out? 100% 🙂", "source": "en", "target": "de", "alternatives": "1", "unknown": "x"}
    answer = demo.request("POST", "/translate", data=form)
    assert answer.json()["translatedText"] == german
    assert len(answer.json()["alternatives"]) == 1
    blank = {**form, "alternatives": ""}
    for sent in ({"json": blank}, {"data": blank}, {"files": {name: (None, value) for name, value in blank.items()}}):
        found = demo.request("POST", "/translate", **sent).json()
        assert (found["translatedText"], "alternatives" in found) == (german, False)


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no text": ({"source": "en", "target": "de"}, 400, "q: Field required"),
    "no target": ({"q": "a", "source": "en"}, 400, "target: Field required"),
    "a number": ({"q": 7, "source": "en", "target": "de"}, 400, "q.str: Input should be a valid string"),
    "a format": ({"q": "a", "source": "en", "target": "de", "format": "xml"}, 400, "format: Input should be 'text'"),
    "fewer than none": ({"q": "a", "source": "en", "target": "de", "alternatives": -1}, 400, "alternatives: "),
    "too many": ({"q": "a", "source": "en", "target": "de", "alternatives": 10}, 400, "give at most 9"),
    "an unknown source": ({"q": "a", "source": "fr", "target": "de"}, 404, "no model from 'fr' to 'de'"),
    "an unknown target": ({"q": "a", "source": "auto", "target": "fr"}, 404, "to 'fr': give en to de"),
    "half a character": ({"q": ["\ud800"], "source": "en", "target": "de"}, 400, "text 1: lone surrogate"),
    "too many texts": ({"q": ["a"] * 257, "source": "en", "target": "de"}, 413, "too many: send at most 256"),
    "too much": ({"q": "a" * 20_001, "source": "en", "target": "de"}, 413, "20,001 characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_request_is_rejected_with_its_status(demo: ServiceHarness, name: str) -> None:
    content, status, named = REFUSED[name]
    answer = demo.post("/translate", demo.create_app(limits=Limits()), **content)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert named in answer.json()["error"]


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 100_000, b"1" * 5000, b"q=a"])
def test_a_body_that_is_neither_a_form_nor_an_object_is_refused(demo: ServiceHarness, path: str, body: bytes) -> None:
    answer = demo.request("POST", path, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (400, {"error"})


@pytest.mark.parametrize("body", [b"", b"%ff", b"q", b"&=&", b"a=1&" * 200 + b"q=a", b"\xff=1"])
def test_an_invalid_form_is_rejected(demo: ServiceHarness, body: bytes) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    answer = demo.request("POST", "/translate", content=body, headers=headers)
    assert (answer.status_code, set(answer.json())) == (400, {"error"})
    assert demo.request("GET", "/languages", content=body, headers=headers).status_code == 200


def test_languages_are_listed_with_what_they_can_be_translated_to(demo: ServiceHarness, idle: ServiceHarness) -> None:
    known = [{"code": "en", "name": "English", "targets": ["de"]}, {"code": "de", "name": "German", "targets": []}]
    assert demo.request("GET", "/languages").json() == known
    assert demo.request("GET", "/languages", demo.create_app([ApiKey(name="a", sha256="0" * 64)])).json() == known
    assert idle.request("GET", "/languages").json() == []


def test_settings_tell_clients_what_they_need(demo: ServiceHarness, idle: ServiceHarness) -> None:
    found = demo.request("GET", "/frontend/settings", demo.create_app([ApiKey(name="a", sha256="0" * 64)])).json()
    assert (found["keyRequired"], found["apiKeys"], found["charLimit"]) == (True, True, demo.limits.characters)
    assert found["language"]["source"] == {"code": "en", "name": "English"}
    assert found["language"]["target"] == {"code": "de", "name": "German"}
    found = idle.request("GET", "/frontend/settings").json()
    assert (found["keyRequired"], found["language"]) == (False, None)


def test_codes_and_numbers_are_taken_as_clients_write_them(demo: ServiceHarness) -> None:
    (german,) = demo.translate(STATION)
    for source, target in (("EN", "de"), ("en", "de-DE"), ("en_US", "DE")):
        content = {"q": STATION, "source": source, "target": target, "alternatives": "2"}
        found = demo.post("/translate", **content).json()
        assert found["translatedText"] == german
        assert len(found["alternatives"]) == 2
    assert "detectedLanguage" in demo.post("/translate", q=STATION, source="AUTO", target="de").json()
    for wrong in ("-1", "x", " ", "1.5", "²"):
        content = {"q": STATION, "source": "en", "target": "de", "alternatives": wrong}
        assert demo.post("/translate", **content).status_code == 400


def test_a_multipart_form_does_as_well(demo: ServiceHarness) -> None:
    text = "Über & out?\r\n100% 🙂"
    (german,) = demo.translate(text)
    fields = {"q": text, "source": "en", "target": "de", "alternatives": "1"}
    answer = demo.request("POST", "/translate", files={name: (None, value) for name, value in fields.items()})
    assert answer.json()["translatedText"] == german
    assert len(answer.json()["alternatives"]) == 1


@pytest.mark.parametrize(
    "body", [b"", b"--x", b"--x--", b"--x\r\n\r\na\r\n--x--", b"--x\r\n" * 200 + b"--x--", b"\xff"]
)
@pytest.mark.parametrize("boundary", ["", "; boundary=x", "; boundary="])
def test_an_invalid_multipart_form_is_rejected(demo: ServiceHarness, body: bytes, boundary: str) -> None:
    headers = {"content-type": f"multipart/form-data{boundary}"}
    answer = demo.request("POST", "/translate", content=body, headers=headers)
    assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_the_language_of_a_text_is_detected(demo: ServiceHarness) -> None:
    found = demo.post("/detect", q="Wo ist der Bahnhof? Er ist hinter der Kirche.").json()
    assert found[0]["language"] == "de"
    assert 90 < found[0]["confidence"] <= 100
    assert demo.request("POST", "/detect", data={"q": STATION}).json()[0]["language"] == "en"
    assert demo.post("/detect", q="a" * 20_001).status_code in (200, 413)


def test_a_key_may_stand_in_the_body(demo: ServiceHarness) -> None:
    key, sha256 = generate_key()
    app = demo.create_app([ApiKey(name="a", sha256=sha256, requests_per_minute=5, characters_per_day=30)])
    content = {"q": STATION, "source": "en", "target": "de"}
    assert demo.post("/translate", app, **content).status_code == 401
    assert demo.post("/translate", app, **content, api_key="wrong").status_code == 401
    assert demo.post("/translate", app, **content, api_key=key).status_code == 200
    assert demo.request("POST", "/detect", app, data={"q": "a", "api_key": key}).status_code == 200
    assert demo.request("GET", "/languages", app, data={"api_key": key}).status_code == 200
    limited = demo.post("/translate", app, **content, api_key=key)
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "3600")
    statuses = [demo.post("/detect", app, q="a", api_key=key).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]  # what was refused is not counted
    assert key not in demo.log_text
