"""Align in a real browser: the command's numbers, links, a head that is stored, and nothing for axe to find."""

import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from studio_process import open_studio
from typer.testing import CliRunner

from dragoman.bundle import open_bundle
from dragoman.cli.main import app

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

GOLDEN = Path(__file__).parents[2] / "golden"
CODES |= {"9": ord("9"), "r": ord("R"), "m": ord("M"), ".": 190}
TEXTS = {
    "source": ["ten old houses.", "", "two red dogs.", "four green women."],
    "target": ["zehn alte Häuser.", "nichts", "zwei rote Hunde.", "vier grüne Frauen."],
    "gold": ["1-1 2-2 3-3", "", "1-1 2-2 3-3 2p3", "1-1 2p2 3-3"],
}
CELLS = "[...document.querySelectorAll('td button')]"
CHOSEN = "document.querySelector('td [aria-pressed=true]')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in TEXTS.items():
        (tmp_path / f"a.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Path(shutil.copytree(GOLDEN / "v1", tmp_path / "mine"))


@pytest.fixture
def studio(folder: Path) -> Iterator[str]:
    with open_studio(f"mine={folder}", "demo") as address:
        yield address


def opened(browser: Browser, address: str, fragment: str = "") -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&view=align{fragment}")
    browser.until("document.querySelectorAll('textarea').length === 3")


def ranked(browser: Browser, folder: Path) -> None:
    """Choose the three files, and rank the heads by them."""
    for i, name in enumerate(TEXTS):
        found = browser.request("Runtime.evaluate", expression=f"document.querySelectorAll('input[type=file]')[{i}]")
        path = str(folder.parent / f"a.{name}")
        browser.request("DOM.setFileInputFiles", files=[path], objectId=found["result"]["objectId"])
        browser.until(f"document.querySelectorAll('textarea')[{i}].value !== ''")
    browser.until("!document.querySelector('form .primary').disabled")
    browser.run("document.querySelector('form .primary').click()")
    settled(browser)


def settled(browser: Browser) -> None:
    browser.until("document.querySelector('.words') && !document.querySelector('[aria-busy=true]')")


def pressed(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": key} if kind == "keyDown" else {}
        browser.request("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=CODES[key], **text)


def command_lines(browser: Browser) -> list[list[str]]:
    lines = browser.run("document.querySelector('footer code').textContent").splitlines()
    return [shlex.split(line) for line in lines]


def test_the_grid_has_the_numbers_of_its_command(
    browser: Browser, studio: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(browser, studio)
    ranked(browser, folder)
    labels = browser.run(f"{CELLS}.map((one) => one.ariaLabel)")
    assert len(labels) == 12
    search, align = command_lines(browser)
    assert search[:2] == align[:2] == ["dragoman", "align"]
    assert [search[i] for i in (4, 6, 8, 9)] == ["a.source", "a.target", "a.gold", "--search"]
    monkeypatch.chdir(folder.parent)
    done = CliRunner().invoke(app, search[1:])
    assert done.exit_code == 0, done.output
    rows = re.findall(r"^ +0 +(\d|mean) +(written|read) +(attention|norm) +(\S+) +\[", done.stdout, re.MULTILINE)
    assert len(rows) == 10
    for head, of_rows, measure, rate in rows:
        which = "mean of heads" if head == "mean" else f"head {head}"
        name = f"layer 0, {which}, {of_rows}, {'weights' if measure == 'attention' else 'norm'}: {rate} %"
        assert any(label == name or label.startswith(f"{name},") for label in labels), (name, labels)
    best = browser.run(f"{CHOSEN}.ariaLabel")
    assert best.endswith(f"{rows[0][3]} %, the best")
    (suggested,) = re.findall(r"^  (--layer .*)$", done.stdout, re.MULTILINE)
    assert align[9:] == shlex.split(suggested)
    numbers = re.findall(r"\d+\.\d", browser.text("[aria-label='The chosen head'] [role=status]"))
    of_best = next(line for line in done.stdout.splitlines() if line.lstrip().startswith("0 "))
    assert numbers == re.findall(r"\d+\.\d", of_best)
    time.sleep(0.5)  # no second request follows the first
    browser.run("0")
    assert sum(address.endswith("/api/links") for address in browser.requested) == 1
    assert browser.complaints == []


def test_the_links_of_a_pair_are_judged_and_open_see(
    browser: Browser, studio: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(browser, studio, "&layer=0&head=1&rows=read&measure=norm")
    ranked(browser, folder)
    assert browser.run(f"{CHOSEN}.ariaLabel").startswith("layer 0, head 1, read, norm: ")
    monkeypatch.chdir(folder.parent)
    printed = CliRunner().invoke(app, command_lines(browser)[1][1:])
    links = next(line.split() for line in printed.stdout.splitlines() if line)
    words = "[...document.querySelector('.words').children]"
    linked = "[...one.children].slice(1).filter((each) => each.className.split(' ')[0] !== 'missed').length"
    assert sum(browser.run(f"{words}.map((one) => {linked})")) == len(links)
    assert browser.run("document.querySelectorAll('ol li').length") == 3  # the pair with an empty side is left out
    browser.run("document.querySelectorAll('ol .side button')[1].click()")
    browser.until("document.querySelector('.trust') !== null && !document.querySelector('.busy')")
    assert browser.run("document.querySelector('header input[type=text]').value") == TEXTS["source"][2]
    assert browser.run("document.querySelector('.target input').value") == TEXTS["target"][2]
    assert "layer=0&head=1&rows=read&measure=norm" in browser.run("location.hash")
    browser.run("history.back()")
    browser.until("document.querySelector('.words') !== null")
    assert browser.run(f"{CHOSEN}.ariaLabel").startswith("layer 0, head 1, read, norm: ")


def test_keys_choose_a_head_and_the_address_keeps_it(browser: Browser, studio: str, folder: Path) -> None:
    opened(browser, studio, "&layer=0&head=0&rows=written&measure=attention")
    ranked(browser, folder)
    browser.run("document.activeElement.blur()")
    for key in (".", "r", "m"):
        pressed(browser, key)
    browser.until("/layer=0&head=1&rows=read&measure=norm/.test(location.hash)")
    browser.run(f"{CHOSEN}.focus()")
    browser.press("ArrowLeft")
    browser.until(f"document.activeElement === {CHOSEN} && {CHOSEN}.ariaLabel.startsWith('layer 0, head 0, read')")
    assert browser.run(f"{CELLS}.filter((one) => one.tabIndex === 0).length") == 1
    assert "zehn" not in browser.run("decodeURIComponent(location.hash)")


def test_a_head_is_stored_and_aligns_from_then_on(browser: Browser, studio: str, folder: Path) -> None:
    opened(browser, studio, "&layer=0&head=1&rows=read&measure=norm")
    ranked(browser, folder)
    store = "document.querySelector('.head .primary')"
    assert browser.run(f"{store}.innerText") == "Store this head"
    browser.run(f"{store}.click()")
    browser.until(f"{store} === null && {CHOSEN}.ariaLabel.endsWith(', stored')")
    (head,) = open_bundle(folder).info.alignment_heads
    assert (head.head, head.rows, head.measure) == (1, "read", "norm")
    assert str(folder) in browser.text("[aria-label='The chosen head']")
    browser.run("document.activeElement.blur()")
    pressed(browser, "m")
    browser.until(f"{store} !== null")
    browser.run("document.querySelector('ol .side button').click()")
    browser.until("document.querySelector('.aligns') !== null")
    assert "head 1" in browser.run("document.querySelector('.aligns').ariaLabel")


def test_the_demo_keeps_its_head(browser: Browser, studio: str, folder: Path) -> None:
    opened(browser, studio, "&model=demo")
    ranked(browser, folder)
    assert "★" in browser.text(".grid")
    browser.run(f"{CELLS}.find((one) => !one.ariaLabel.endsWith('stored')).click()")
    browser.until("/cannot be changed/.test(document.querySelector('.head').innerText)")
    assert browser.run("document.querySelector('.head .primary') === null")


def test_a_mistake_is_told_and_long_work_can_be_cancelled(browser: Browser, studio: str, folder: Path) -> None:
    opened(browser, studio, "&model=demo")
    ranked(browser, folder)
    field = "document.querySelectorAll('textarea')[{}]"
    event = "dispatchEvent(new Event('input', {bubbles: true}))"

    def given(*texts: str) -> None:
        for i, text in enumerate(texts):
            browser.run(f"{field.format(i)}.value = {json.dumps(text)}; {field.format(i)}.{event}")
        browser.run("document.querySelector('form .primary').click()")

    given("two dogs.", "zwei Hunde.", "1:1")
    browser.until("/is not a link/.test(document.querySelector('[role=alert]')?.innerText)")
    given(*("\n".join([line] * 1000) for line in ("two red dogs play.", "zwei rote Hunde spielen.", "1-1")))
    browser.until("document.querySelector('progress')?.value > 0")
    browser.run("[...document.querySelectorAll('form button')].at(-1).click()")
    browser.until("document.querySelector('progress') === null")
    assert browser.run("document.querySelector('.grid') === null")
    given("two dogs.", "zwei Hunde.", "1-1")
    browser.until("document.querySelector('.words') !== null")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, studio: str, folder: Path, look: str) -> None:
    with browser.look(look) as width:
        opened(browser, studio, "&model=demo")
        ranked(browser, folder)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, studio: str, folder: Path) -> None:
    opened(browser, studio)
    ranked(browser, folder)
    assert {"Rank all heads", "See", "Copy as command"} <= set(browser.check_tour())
