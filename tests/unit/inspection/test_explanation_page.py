"""The explanation as a page: complete, harmless, and usable in a real browser by keyboard and on a narrow screen."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.inspection.explanation import Explanation, explain, page
from dragoman.inspection.explanation.worksheet import Table, format_number
from dragoman.inspection.inspector import Inspector

GOLDEN = Path(__file__).parents[2] / "golden"
INSPECTOR = Inspector.load(GOLDEN / "v1")
RECURRENT = Inspector.load(GOLDEN / "v1-recurrent")
CONVOLUTIONAL = Inspector.load(GOLDEN / "v1-convolutional")
HOSTILE = "</script><script>harmed=1 <!-- \"'><b> $x <img/src> two"
CODES |= {" ": 32}


def lesson(inspector: Inspector = INSPECTOR, **options: Any) -> Explanation:
    return explain(inspector, "two red dogs.", "zwei rote Hunde.", **{"kind": "cross", **options})


def data_of(text: str) -> dict[str, Any]:
    return json.loads(text.split('id="dragoman-explanation">')[1].split("</script>")[0])


def test_the_page_holds_the_cell_the_map_and_for_browsers_without_scripts_the_text() -> None:
    shown = lesson(word="rote", head=1)
    text = page(INSPECTOR, shown)
    data = data_of(text)
    assert data["choice"] | {"kind": "cross", "layer": 0, "head": 1} == data["choice"]
    assert (data["cell"]["title"], data["cell"]["row"]) == (shown.title, shown.word.row)
    without_scripts = text.split("<noscript>")[1].split("</noscript>")[0]
    assert all(step.title in without_scripts for step in shown.steps)


@pytest.mark.parametrize("word", [None, "0"])
def test_no_word_becomes_an_element(word: str | None) -> None:
    text = page(INSPECTOR, explain(INSPECTOR, HOSTILE, word=word))
    assert len(re.findall("<script", text)) == 2
    assert "<img" not in text.split("<style>")[0] + text.split("<noscript>")[1].split("</noscript>")[0]
    assert data_of(text)["cell"]["keys"]


def test_nothing_runs_but_our_script_and_nothing_is_requested_from_a_network() -> None:
    text = page(INSPECTOR, lesson())
    policy = re.search(r'Policy" content="([^"]*)"', text)[1]
    assert "unsafe" not in policy
    for kind, part in (
        ("style", text.split("<style>")[1].split("</style>")[0]),
        ("script", text.split('<script type="module">')[1].split("</script>")[0]),
    ):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    addresses = re.findall(r"https?://[^\s\"'`]+", text)
    assert all("www.w3.org" in address or "svelte.dev/e/" in address for address in addresses)


def test_the_size_is_within_the_budget() -> None:
    text = page(INSPECTOR, lesson())
    data = data_of(text)
    assert len(text.encode()) <= 150_000 + 1.4 * len(base64.b64decode(data["trace"])) + 1.1 * len(
        json.dumps(data["cell"])
    )


# In a browser


def in_browser(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.slow(pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")(test))


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + 60
    while not browser.run(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.02)


def opened(browser: Browser, folder: Path, inspector: Inspector, shown: Explanation) -> None:
    (folder / "lesson.html").write_text(page(inspector, shown), encoding="utf-8")
    browser.open(folder / "lesson.html")
    until(browser, "document.querySelector('.cell') !== null")


def press_space(browser: Browser) -> None:
    for event in ({"type": "keyDown", "text": " "}, {"type": "keyUp"}):
        browser.request("Input.dispatchKeyEvent", key=" ", code="Space", windowsVirtualKeyCode=32, **event)


@in_browser
@pytest.mark.parametrize(
    "inspector", [INSPECTOR, RECURRENT, CONVOLUTIONAL], ids=["transformer", "recurrent", "convolutional"]
)
def test_every_step_and_every_printed_number_is_on_the_page(
    browser: Browser, tmp_path: Path, inspector: Inspector
) -> None:
    shown = lesson(inspector, key=1)
    opened(browser, tmp_path, inspector, shown)
    assert browser.requested == [(tmp_path / "lesson.html").as_uri()]
    assert browser.complaints == []
    browser.run("document.querySelector('.cell nav button').click()")
    for number, step in enumerate(shown.steps, 1):
        label = f"Step {number} of {len(shown.steps)}"
        until(browser, f"document.querySelector('.cell .step').getAttribute('aria-label') === {label!r}")
        text = " ".join(browser.text(".cell .step").replace("\N{MINUS SIGN}", "-").split())
        for part in (step.section, re.sub(r"[_^]", "", step.why), re.sub(r"[_^]", "", step.title)):
            assert part in text
        for block in step.blocks:
            rows = block.rows if isinstance(block, Table) else ()
            assert all(format_number(cell) in text for row in rows for cell in row.cells)
        browser.run("document.activeElement.blur()")
        press_space(browser)
    notes = browser.text(".cell")
    assert shown.caveats in notes
    assert all(line in notes for line in shown.choices)


@in_browser
def test_all_numbers_of_a_vector_can_be_opened(browser: Browser, tmp_path: Path) -> None:
    shown = lesson(key=1)
    opened(browser, tmp_path, INSPECTOR, shown)
    browser.run("document.querySelector('.cell details').open = true")
    until(browser, "document.querySelector('.cell dl') !== null")
    query = " ".join(f"{number:.6f}" for number in shown.recomputed.query).replace("-", "\N{MINUS SIGN}")
    assert query in browser.text(".cell dl")


@in_browser
def test_the_slider_and_the_keys_work_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    shown = lesson(row=2, head=0)
    opened(browser, tmp_path, INSPECTOR, shown)
    own = browser.run("[...document.querySelectorAll('.weight')].map((one) => one.textContent)")
    assert own == [f"{weight:.4f}" for weight in shown.weights[0]]
    for _ in range(40):
        browser.press("Tab")
        if browser.run("document.activeElement.type") == "range":
            break
    browser.press("End")
    flat = browser.run("[...document.querySelectorAll('.weight')].map((one) => +one.textContent)")
    assert max(flat) < max(map(float, own))
    assert browser.run("document.querySelectorAll('.key i').length") == len(own)
    browser.press("Tab", "Tab")  # past the button that resets the divisor
    assert browser.run("document.activeElement.type") == "radio"
    before = browser.text(".cell nav")
    browser.press("ArrowDown")
    assert browser.text(".cell nav") != before


@in_browser
def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, INSPECTOR, explain(INSPECTOR, HOSTILE, word="two"))
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelectorAll('img, main script').length") == 0
    assert browser.complaints == []


@in_browser
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_sticks_out_of_a_narrow_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False)
    shown = explain(INSPECTOR, "two red dogs and ten old houses at four green tables.")
    opened(browser, tmp_path, INSPECTOR, shown)
    for button in range(len(shown.steps)):
        browser.run(f"document.querySelectorAll('.cell nav button')[{button}].click()")
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.request("Emulation.clearDeviceMetricsOverride")


@in_browser
def test_all_steps_are_printed(browser: Browser, tmp_path: Path) -> None:
    shown = lesson()
    opened(browser, tmp_path, INSPECTOR, shown)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.querySelectorAll('.cell .step h3').length") == len(shown.steps)
    browser.run("dispatchEvent(new Event('afterprint'))")
    until(browser, "document.querySelectorAll('.cell .step h3').length === 1")


@in_browser
@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, tmp_path: Path, look: str) -> None:
    shown = lesson(kind="decoder", row=3)
    with browser.look(look) as width:
        opened(browser, tmp_path, INSPECTOR, shown)
        for button in range(len(shown.steps)):
            browser.run(f"document.querySelectorAll('.cell nav button')[{button}].click()")
            assert browser.violations() == [], button
            assert browser.run("document.documentElement.scrollWidth") <= width, button


@in_browser
def test_tab_reaches_everything(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, INSPECTOR, lesson(kind="decoder", row=3))
    assert "Cell" in browser.check_tour()
