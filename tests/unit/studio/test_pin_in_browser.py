"""Pinning in a real browser: a translation stays beside the next ones, in the address too, and opens Compare."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from studio_process import open_studio

from dragoman.bundle import demo_folder
from dragoman.inspection.inspector import Inspector

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

GOLDEN = Path(__file__).parents[2] / "golden"
CODES |= {"p": ord("P")}
LONG = "A woman is reading a book in the garden."
FIRST, SECOND = "A dog sleeps.", "Two cats play."
PINNED = "document.querySelector('.pinned')"


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    with open_studio("demo", f"v1={GOLDEN / 'v1'}") as address:
        yield address


def opened(browser: Browser, address: str, text: str) -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&text={quote(text)}")
    translated(browser)


def translated(browser: Browser) -> None:
    browser.until("document.querySelector('.result') && !document.querySelector('.busy, .pinned[aria-busy=true]')")


def press_p(browser: Browser) -> None:
    browser.run("document.activeElement.blur()")
    browser.request("Input.dispatchKeyEvent", type="keyDown", key="p", text="p", windowsVirtualKeyCode=CODES["p"])
    browser.request("Input.dispatchKeyEvent", type="keyUp", key="p", windowsVirtualKeyCode=CODES["p"])


def translate(browser: Browser, text: str) -> None:
    field = "document.querySelector('header input[type=text]')"
    browser.run(f"{field}.value = {text!r}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    browser.run("document.querySelector('header form').requestSubmit()")
    browser.until(f"location.hash.includes('&text={quote(text).replace('%20', '+')}')")
    translated(browser)


def words(browser: Browser, selector: str) -> str:
    return " ".join(
        browser.run(f"[...document.querySelectorAll('{selector} .line.target button')].map((one) => one.innerText)")
    )


def test_a_pinned_translation_stays_beside_the_next(browser: Browser, studio: str) -> None:
    inspector = Inspector.load(demo_folder())
    first, second = inspector.trace(FIRST), inspector.trace(SECOND)
    opened(browser, studio, FIRST)
    press_p(browser)
    browser.until("document.querySelector('.pin').innerText === 'Pinned'")
    assert browser.run(f"{PINNED} === null")  # it is the one that is shown
    translate(browser, SECOND)
    browser.until(f"{PINNED} !== null")
    translated(browser)
    assert (words(browser, ".pinned"), words(browser, ".result")) == (first.target.text, second.target.text)
    total = f"{first.log_probabilities.sum():.2f}".replace("-", "\u2212")
    assert f"log-probability {total}" in browser.text(".pinned .facts")
    fragment = browser.run("location.hash")
    opened(browser, f"{studio}&{fragment.removeprefix('#')}", SECOND)
    assert words(browser, ".pinned") == first.target.text
    browser.run("[...document.querySelectorAll('.pinned button')].find((one) => one.innerText === 'Show').click()")
    browser.until(f"{PINNED} === null")
    translated(browser)
    assert words(browser, ".result") == first.target.text
    press_p(browser)
    browser.until("document.querySelector('.pin').innerText === 'Pin' && !location.hash.includes('pin=')")
    assert browser.complaints == []


def test_a_translation_is_compared_with_that_of_another_model(browser: Browser, studio: str) -> None:
    opened(browser, studio, "two red dogs.")
    press_p(browser)
    browser.until("location.hash.includes('pin=')")
    browser.run("""{
        const models = document.querySelector('header select');
        models.value = 'v1';
        models.dispatchEvent(new Event('change', {bubbles: true}));
    }""")
    compare = "[...document.querySelectorAll('.pinned button')].find((one) => one.innerText === 'Compare')"
    browser.until(f"{compare} !== undefined")
    browser.run(f"{compare}.click()")
    browser.until("document.querySelector('.compare[aria-busy=false]') !== null")
    assert "demo" in browser.text("[aria-label='Model A'] h2")
    assert "v1" in browser.text("[aria-label='Model B'] h2")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, studio: str, look: str) -> None:
    with browser.look(look) as width:
        opened(browser, f"{studio}&pin={quote('model=demo&text=' + LONG)}", LONG.replace("woman", "man"))
        browser.until(f"{PINNED} !== null")
        translated(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width
        ends = "[...document.querySelectorAll('.line button')].map((one) => one.getBoundingClientRect().right)"
        assert max(browser.run(ends)) <= width
        assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, studio: str) -> None:
    opened(browser, f"{studio}&pin={quote('model=demo&text=' + LONG)}", LONG.replace("woman", "man"))
    browser.until(f"{PINNED} !== null")
    translated(browser)
    assert "Unpin" in browser.check_tour()
