"""Triage in a real browser: the command's numbers, a line opens See, Back returns, and nothing for axe to find."""

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import CHROMIUM, CODES, Browser
from typer.testing import CliRunner

from dragoman.cli.main import app

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 120.0
AXE = Path(__file__).parents[3] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
CODES |= {"8": ord("8"), "/": 191}
SENTENCES = [
    "A dog sleeps.",
    "He paid 300 euros for 7 tickets \U0001f600.",
    "The parliament adopted the resolution on quantitative easing.",
    "<img src=x onerror=window.harmed=1> Two dogs play.",
]
NUMBERS = "[...document.querySelectorAll('ol > li')].map((one) => +one.id.slice(5))"


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not browser.run(expression):
        assert time.monotonic() < end, f"{expression}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def opened(browser: Browser, address: str, fragment: str = "") -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&view=triage{fragment}")
    until(browser, "document.querySelector('textarea') !== null")


def ranked(browser: Browser, sentences: list[str]) -> None:
    text = json.dumps("\n".join(sentences))
    field = "document.querySelector('textarea')"
    browser.run(f"{field}.value = {text}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    until(browser, "!document.querySelector('form .primary').disabled")
    browser.run("document.querySelector('form .primary').click()")


def ready(browser: Browser) -> None:
    until(browser, "document.querySelector('ol > li') !== null")


@contextmanager
def screen(browser: Browser, width: int, is_dark: bool = False) -> Iterator[None]:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    browser.request("Emulation.setEmulatedMedia", features=[scheme])
    try:
        yield
    finally:
        browser.request("Emulation.setEmulatedMedia", features=[])
        browser.request("Emulation.clearDeviceMetricsOverride")


def test_the_list_is_that_of_its_command(browser: Browser, address: str, tmp_path: Path) -> None:
    opened(browser, address)
    words = shlex.split(browser.text("footer code"))
    assert words[:4] == ["dragoman", "triage", "--source", "FILE"]
    ranked(browser, SENTENCES)
    ready(browser)
    (tmp_path / "a.en").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    command = ["triage", "--source", str(tmp_path / "a.en"), "--json", str(tmp_path / "a.jsonl")]
    assert CliRunner().invoke(app, command).exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert browser.run(NUMBERS) == [row["number"] for row in rows]
    browser.run("for (const button of document.querySelectorAll('.toggle')) button.click(); 0")
    for row in rows:
        line = f"document.querySelector('#line-{row['number']}')"
        assert browser.run(f"{line}.querySelector('strong').lastChild.data") == f"{row['score']:.2f}"
        texts = browser.run(f"[...{line}.querySelectorAll('.texts p')].map((one) => one.textContent.trim())")
        assert texts == [row["source"], row["target"]]
        cells = (
            f"[...{line}.querySelectorAll('tbody tr')].map((one) => [...one.cells].slice(1).map((td) => td.innerText))"
        )
        assert browser.run(cells) == [
            [f"{each['value']:.2f}", f"{each['usual']:.2f}", f"{each['effect']:+.1f}"] for each in row["signals"]
        ]
    assert browser.run("window.harmed === undefined")
    assert browser.complaints == []


def test_a_line_opens_see_and_back_returns_to_the_list(browser: Browser, address: str) -> None:
    opened(browser, address, "&sort=line")
    ranked(browser, SENTENCES)
    ready(browser)
    assert browser.run(NUMBERS) == [1, 2, 3, 4]
    browser.run("document.activeElement.blur()")
    browser.press("ArrowDown", "ArrowDown", "ArrowDown", "Tab", "Enter")
    until(browser, "document.querySelector('figure canvas') !== null")
    assert browser.run("document.querySelector('header input[type=text]').value") == SENTENCES[2]
    browser.run("history.back()")
    ready(browser)
    until(browser, "document.activeElement.closest('li')?.id === 'line-3'")
    assert browser.run(NUMBERS) == [1, 2, 3, 4]
    assert "sort=line" in browser.run("location.hash")


def test_the_filter_is_in_the_address_and_the_text_is_not(browser: Browser, address: str) -> None:
    opened(browser, address)
    ranked(browser, SENTENCES)
    ready(browser)
    for key in ("/", *"dog"):
        browser.request("Input.dispatchKeyEvent", type="keyDown", key=key, text=key, windowsVirtualKeyCode=ord(key))
    until(browser, "document.querySelectorAll('ol > li').length === 2")
    until(browser, "location.hash.includes('find=dog')")
    assert "parliament" not in browser.run("location.hash")


def test_a_text_file_is_read(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffA dog sleeps.\r\n\r\nZwölf.\r\n".encode())
    (tmp_path / "latin.txt").write_bytes("Zwölf\n".encode("latin-1"))
    opened(browser, address)
    field = browser.request("Runtime.evaluate", expression="document.querySelector('input[type=file]')")["result"]
    browser.request("DOM.setFileInputFiles", files=[str(tmp_path / "a.txt")], objectId=field["objectId"])
    until(browser, "document.querySelector('textarea').value === 'A dog sleeps.\\n\\nZwölf.\\n'")
    browser.request("DOM.setFileInputFiles", files=[str(tmp_path / "latin.txt")], objectId=field["objectId"])
    until(browser, "/latin.txt is not a text in UTF-8/.test(document.querySelector('[role=alert]')?.innerText)")
    browser.run("document.querySelector('form .primary').click()")
    ready(browser)
    assert sorted(browser.run(NUMBERS)) == [1, 2, 3]
    assert browser.complaints == []


def test_a_long_text_can_be_cancelled(browser: Browser, address: str) -> None:
    opened(browser, address)
    ranked(browser, [f"A man with {number} dogs is walking down the street." for number in range(2000)])
    until(browser, "document.querySelector('progress')?.value > 0")
    browser.run("[...document.querySelectorAll('form button')].at(-1).click()")
    until(browser, "document.querySelector('progress') === null")
    ranked(browser, SENTENCES[:1])  # waits for the model, which the cancelled work leaves soon
    ready(browser)
    ranked(browser, ["A dog."] * 2001)
    until(browser, "/2,001 lines are too many/.test(document.querySelector('[role=alert]')?.innerText)")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, address: str, width: int, is_dark: bool) -> None:
    with screen(browser, width, is_dark):
        opened(browser, address)
        ranked(browser, SENTENCES)
        ready(browser)
        browser.run("for (const one of document.querySelectorAll('.toggle, summary')) one.click(); 0")
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.run(AXE.read_text(encoding="utf-8") + ";0")
        kept = "{resultTypes: ['violations']}"
        browser.run(f"axe.run(document, {kept}).then((all) => {{ window.found = all.violations; }}); 0")
        until(browser, "window.found !== undefined")
        parts = "nodes.slice(0, 3).map(({html, failureSummary}) => html + failureSummary)"
        assert browser.run(f"found.map(({{id, nodes}}) => [id, {parts}])") == []
