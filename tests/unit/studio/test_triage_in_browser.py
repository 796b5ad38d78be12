"""Triage in a real browser: the command's numbers, a line opens See, Back returns, and nothing for axe to find."""

import json
import shlex
from pathlib import Path

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from typer.testing import CliRunner

from dragoman.cli.main import app

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

CODES |= {"8": ord("8"), "/": 191}
SENTENCES = [
    "A dog sleeps.",
    "He paid 300 euros for 7 tickets \U0001f600.",
    "The parliament adopted the resolution on quantitative easing.",
    "<img src=x onerror=window.harmed=1> Two dogs play.",
]
NUMBERS = "[...document.querySelectorAll('ol > li')].map((one) => +one.id.slice(5))"


def opened(browser: Browser, address: str, fragment: str = "") -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&view=triage{fragment}")
    browser.until("document.querySelector('textarea') !== null")


def ranked(browser: Browser, sentences: list[str]) -> None:
    text = json.dumps("\n".join(sentences))
    field = "document.querySelector('textarea')"
    browser.run(f"{field}.value = {text}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    browser.until("!document.querySelector('form .primary').disabled")
    browser.run("document.querySelector('form .primary').click()")


def ready(browser: Browser) -> None:
    browser.until("document.querySelector('ol > li') !== null")


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
    browser.until("document.querySelector('figure canvas') !== null")
    assert browser.run("document.querySelector('header input[type=text]').value") == SENTENCES[2]
    browser.run("history.back()")
    ready(browser)
    browser.until("document.activeElement.closest('li')?.id === 'line-3'")
    assert browser.run(NUMBERS) == [1, 2, 3, 4]
    assert "sort=line" in browser.run("location.hash")


def test_the_sentence_of_another_view_is_taken_over_unless_there_is_a_text(browser: Browser, address: str) -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{page}#{token}&text=A%20dog%20sleeps.")
    tab = "[...document.querySelectorAll('nav button')].find((one) => one.innerText === '{}')"
    browser.until("document.querySelector('figure canvas') !== null")
    field = "document.querySelector('textarea')"
    for before, after in (("", "A dog sleeps."), ("Two dogs.", "Two dogs.")):
        browser.run(f"{tab.format('Triage')}.click()")
        browser.until(f"{field} !== null")
        if before:
            browser.run(f"{field}.value = {before!r}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
            browser.run(f"{tab.format('See')}.click()")
            browser.until(f"{field} === null")
            browser.run(f"{tab.format('Triage')}.click()")
            browser.until(f"{field} !== null")
        assert browser.run(f"{field}.value") == after


def test_the_filter_is_in_the_address_and_the_text_is_not(browser: Browser, address: str) -> None:
    opened(browser, address)
    ranked(browser, SENTENCES)
    ready(browser)
    for key in ("/", *"dog"):
        browser.request("Input.dispatchKeyEvent", type="keyDown", key=key, text=key, windowsVirtualKeyCode=ord(key))
    browser.until("document.querySelectorAll('ol > li').length === 2")
    browser.until("location.hash.includes('find=dog')")
    assert "parliament" not in browser.run("location.hash")


def test_a_text_file_is_read(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffA dog sleeps.\r\n\r\nZwölf.\r\n".encode())
    (tmp_path / "latin.txt").write_bytes("Zwölf\n".encode("latin-1"))
    opened(browser, address)
    field = browser.request("Runtime.evaluate", expression="document.querySelector('input[type=file]')")["result"]
    browser.request("DOM.setFileInputFiles", files=[str(tmp_path / "a.txt")], objectId=field["objectId"])
    browser.until("document.querySelector('textarea').value === 'A dog sleeps.\\n\\nZwölf.\\n'")
    browser.request("DOM.setFileInputFiles", files=[str(tmp_path / "latin.txt")], objectId=field["objectId"])
    browser.until("/latin.txt is not a text in UTF-8/.test(document.querySelector('[role=alert]')?.innerText)")
    browser.run("document.querySelector('form .primary').click()")
    ready(browser)
    assert sorted(browser.run(NUMBERS)) == [1, 2, 3]
    assert browser.complaints == []


def test_a_long_text_can_be_cancelled(browser: Browser, address: str) -> None:
    opened(browser, address)
    ranked(browser, [f"A man with {number} dogs is walking down the street." for number in range(2000)])
    browser.until("document.querySelector('progress')?.value > 0")
    browser.run("[...document.querySelectorAll('form button')].at(-1).click()")
    browser.until("document.querySelector('progress') === null")
    ranked(browser, SENTENCES[:1])  # waits for the model, which the cancelled work leaves soon
    ready(browser)
    ranked(browser, ["A dog."] * 2001)
    browser.until("/2,001 lines are too many/.test(document.querySelector('[role=alert]')?.innerText)")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, address: str, look: str) -> None:
    with browser.look(look) as width:
        opened(browser, address)
        ranked(browser, SENTENCES)
        ready(browser)
        browser.run("for (const one of document.querySelectorAll('.toggle, summary')) one.click(); 0")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, address: str) -> None:
    opened(browser, address)
    ranked(browser, SENTENCES)
    ready(browser)
    browser.run("for (const one of document.querySelectorAll('.toggle, summary')) one.click(); 0")
    names = browser.check_tour()
    assert sum("Score" in name for name in names) >= len(SENTENCES)
