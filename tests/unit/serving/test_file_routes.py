"""Files that are uploaded, translated and downloaded, as LibreTranslate's clients do it."""

import io
import zipfile
from typing import Any

import pytest
from service_harness import FakeEngine, ServiceHarness

from dragoman.serving.config import Limits
from dragoman.serving.errors import UnknownModelError
from dragoman.serving.file_store import FileStore
from dragoman.serving.keys import ApiKey, generate_key

KEY, SHA256 = generate_key()
KNOWN = [ApiKey(name="shop", sha256=SHA256, characters_per_day=100)]
LANGUAGES = {"source": "en", "target": "de"}


def upload(harness: ServiceHarness, name: str, content: bytes | str, app: Any = None, **fields: str) -> Any:
    data = content.encode() if isinstance(content, str) else content
    form = {**LANGUAGES, **fields}
    return harness.request("POST", "/translate_file", app, data=form, files={"file": (name, data)})


def translated(harness: ServiceHarness, name: str, content: bytes | str, **fields: str) -> tuple[str, str]:
    """Return the translated file, and the name that it is saved under."""
    answer = upload(harness, name, content, **fields)
    assert answer.status_code == 200, answer.text
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    file = harness.request("GET", url)
    assert file.headers["content-type"] == "application/octet-stream"
    return file.text, file.headers["content-disposition"].rpartition("''")[2]


FILES = {
    "a.txt": ("Where is the station?\r\n\r\n- Two dogs.\r\n", "Wo ist der Bahnhof?\r\n\r\n- Zwei Hunde.\r\n"),
    "a.html": ("<p>Where is the <b>station</b>?</p>\r\n", "<p>Wo ist der <b>Bahnhof</b>?</p>\r\n"),
    "a.xml": ("<a><b>Two dogs.</b></a>", "<a><b>Zwei Hunde.</b></a>"),
    "A.MD": ("# Two dogs\n\n`x`\n", "# Zwei Hunde\n\n`x`\n"),
    "a.srt": (
        "1\n00:00:01,000 --> 00:00:02,000\nTwo dogs.\n",
        "1\n00:00:01,000 --> 00:00:02,000\nZwei Hunde.\n",
    ),
    "a.po": ('msgid "Two dogs."\nmsgstr ""\n', 'msgid "Two dogs."\nmsgstr "Zwei Hunde."\n'),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_files_keep_everything_but_text(demo: ServiceHarness, name: str) -> None:
    content, expected = FILES[name]
    assert translated(demo, name, content) == (expected, name)


@pytest.mark.slow
def test_a_word_document_keeps_its_formatting(demo: ServiceHarness) -> None:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    texts = ("Where is the", "<w:b/>", "station", "?")
    body = "<w:p><w:r><w:t>{} </w:t></w:r><w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r><w:r><w:t>{}</w:t></w:r></w:p>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{namespace}">{body.format(*texts)}</w:document>')
    answer = upload(demo, "a.docx", packed.getvalue())
    file = demo.request("GET", answer.json()["translatedFileUrl"])
    with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        found = archive.read("word/document.xml").decode().replace(' xml:space="preserve"', "")
    assert body.format("Wo ist der", "<w:b/>", "Bahnhof", "?") in found


@pytest.mark.slow
def test_a_long_file_is_translated_though_a_request_may_not_be_so_long(demo: ServiceHarness) -> None:
    app = demo.create_app(None, Limits(wait=60, seconds=60, characters=100, body_bytes=1024))
    answer = upload(demo, "a.txt", "Where is the station?\n" * 60, app)
    file = demo.request("GET", answer.json()["translatedFileUrl"], app)
    assert file.text == "Wo ist der Bahnhof?\n" * 60


@pytest.mark.slow
def test_names_cannot_lead_elsewhere(demo: ServiceHarness) -> None:
    assert translated(demo, "../../etc/Zwei Hünde.txt", "Two dogs.")[1] == "Zwei_H%C3%BCnde.txt"
    assert translated(demo, 'C:\\docs\\a";b.txt', "Two dogs.")[1].endswith(".txt")


@pytest.mark.slow
def test_the_source_may_be_detected(demo: ServiceHarness) -> None:
    assert translated(demo, "a.txt", "Where is the station?", source="auto")[0] == "Wo ist der Bahnhof?"


@pytest.mark.slow
def test_a_key_is_needed_and_charged(demo: ServiceHarness) -> None:
    app = demo.create_app(KNOWN, Limits(wait=60, seconds=60))
    assert upload(demo, "a.txt", "Two dogs.", app).status_code == 401
    assert upload(demo, "a.txt", "Two dogs. " * 8, app, api_key=KEY).status_code == 200
    assert upload(demo, "a.txt", "Two dogs. " * 8, app, api_key=KEY).status_code == 429


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("a.pdf", "a", 400),
        ("a", "a", 400),
        ("a.jsonl", "{}", 400),
        ("a.txt", b"\xff\xfe", 400),
        ("a.xml", "<a>", 400),
        ("a.docx", "no zip", 400),
        ("a.txt", "a" * 3000, 413),
    ],
)
def test_what_is_no_such_file_is_refused(idle: ServiceHarness, name: str, content: bytes | str, status: int) -> None:
    app = idle.create_app(None, Limits(file_bytes=2000))
    idle.pool.engines.append(FakeEngine())
    answer = upload(idle, name, content, app)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_more_markup_than_the_limit_is_refused(idle: ServiceHarness) -> None:
    app = idle.create_app(None, Limits(file_markup_bytes=1024))
    idle.pool.engines.append(FakeEngine())
    answer = upload(idle, "a.md", "a " * 600, app)
    assert (answer.status_code, "1,024 bytes" in answer.json()["error"]) == (400, True)


def test_a_form_without_a_file_is_refused(idle: ServiceHarness) -> None:
    idle.pool.engines.append(FakeEngine())
    for request in ({"data": LANGUAGES}, {"files": {"other": ("a.txt", b"a")}, "data": LANGUAGES}, {"json": LANGUAGES}):
        assert idle.request("POST", "/translate_file", **request).status_code == 400
    assert idle.request("POST", "/translate_file", files={"file": ("a.txt", b"a")}).status_code == 400


def test_files_are_dropped_after_their_time_and_the_oldest_for_room() -> None:
    now = 0.0
    store, limits = FileStore(lambda: now), Limits(stored_file_bytes=10, stored_file_seconds=60)
    first, second, third = (store.put("a.txt", b"12345", limits) for _ in range(3))
    assert len({first, second, third}) == 3
    with pytest.raises(UnknownModelError):
        store.find(first)
    assert store.find(second).content == store.find(third).content == b"12345"
    large = store.put("b.txt", b"1" * 11, limits)
    assert len(store.find(large).content) == 11
    now = 60.0
    with pytest.raises(UnknownModelError):
        store.find(large)


def test_an_unknown_download_is_404(idle: ServiceHarness) -> None:
    answer = idle.request("GET", "/download_file/a.txt")
    assert (answer.status_code, list(answer.json())) == (404, ["error"])
