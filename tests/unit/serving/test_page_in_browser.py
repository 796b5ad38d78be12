"""The page in a real browser, before a running service: by mouse, by keyboard, with a key, and with hostile text."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import AXE, CHROMIUM, LOOKS, Browser
from service_process import ServiceProcess, start_service

from dragoman.serving.keys import add_key

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 300.0
CONTROL = 2
HOSTILE = "<img src=x onerror=window.harmed=1><script>window.harmed=1</script> two red dogs."


@pytest.fixture(scope="module")
def service(tiny: Path) -> Iterator[ServiceProcess]:
    with start_service(f"tiny={tiny}", "demo", "--engines", "1", "--limit", "wait=60") as running:
        yield running


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not browser.run(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.05)


def opened(browser: Browser, running: ServiceProcess) -> None:
    browser.events.clear()
    browser.request("Page.navigate", url=running.url + "/")
    browser.wait("Page.loadEventFired")


def ready(browser: Browser, running: ServiceProcess, model: str = "tiny") -> None:
    opened(browser, running)
    until(browser, "document.querySelectorAll('#model option').length === 2")
    until(browser, "document.getElementById('status').textContent === ''")
    browser.choose(model=model)


def typed(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('source').focus()")
    browser.request("Input.insertText", text=text)


def clicked(browser: Browser, selector: str) -> None:
    """With the mouse, where it stands."""
    box = browser.run(
        f"(() => {{ const box = document.querySelector({selector!r}).getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2] })()"
    )
    for event in ("mousePressed", "mouseReleased"):
        browser.request("Input.dispatchMouseEvent", type=event, x=box[0], y=box[1], button="left", clickCount=1)


def translated(browser: Browser) -> str:
    until(browser, "!document.getElementById('result').hidden && document.getElementById('status').textContent === ''")
    return browser.text("#translation")


def test_a_text_is_typed_the_button_pressed_and_the_translation_seen(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    assert browser.run("document.getElementById('result').hidden")
    typed(browser, "two red dogs. ten old houses.")
    clicked(browser, "button")
    assert translated(browser) == "zwei rote Hunde. zehn alte Häuser."
    assert browser.run("document.querySelectorAll('.sentence').length") == 2
    assert "mean probability of a token" in browser.text(".sentence .hint")
    assert browser.text("#made-by").startswith("made by tiny, ")
    assert {url.removeprefix(service.url) for url in browser.requested} <= {
        "/",
        "/page.css",
        "/page.js",
        "/v1/models",
        "/v1/translate",
        "/favicon.ico",
    }
    assert [one for one in browser.complaints if "favicon" not in str(one)] == []


def test_words_that_belong_together_light_up_by_keyboard(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    typed(browser, "two red dogs.")
    clicked(browser, "button")
    translated(browser)
    lit = "[...document.querySelectorAll('.sentence button')].filter((one) => +one.style.getPropertyValue('--lit'))"
    lit += ".map((one) => one.textContent)"
    assert browser.run(lit) == []
    browser.run("document.querySelector('button').focus()")
    browser.press("Tab")
    words = browser.run(lit)
    assert len(words) >= 2
    assert words[0] in ("two", "red", "dogs.")
    assert words[-1] in ("zwei", "rote", "Hunde.")
    browser.run("document.activeElement.blur()")
    assert browser.run(lit) == []


def test_every_field_of_the_form_has_a_label(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    fields = "[...document.querySelectorAll('select, input, textarea')].map(({id, labels}) => [id, labels.length])"
    assert sorted(browser.run(fields)) == [["key", 1], ["model", 1], ["source", 1]]
    assert browser.run("document.documentElement.lang") == "en"


def test_it_can_be_used_without_a_mouse(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    assert browser.run("document.activeElement.id") == "source"  # where one types, from the start
    browser.request("Input.insertText", text="two red dogs.")
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Translate"
    browser.press("Enter")
    assert translated(browser) == "zwei rote Hunde."
    ready(browser, service)
    typed(browser, "ten old houses.")
    for kind in ("rawKeyDown", "keyUp"):
        browser.request(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Enter",
            code="Enter",
            windowsVirtualKeyCode=13,
            modifiers=CONTROL,
        )
    assert translated(browser) == "zehn alte Häuser."


@pytest.mark.parametrize("model", ["tiny", "demo"])
def test_hostile_text_is_only_text(browser: Browser, service: ServiceProcess, model: str) -> None:
    ready(browser, service, model)
    typed(browser, HOSTILE)
    clicked(browser, "button")
    translated(browser)
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    shown = browser.run("[...document.querySelectorAll('.sentence .source')].map((one) => one.textContent).join(' ')")
    assert "".join(shown.split()) == "".join(HOSTILE.split())


def test_even_markup_that_got_in_could_do_nothing(browser: Browser, service: ServiceProcess) -> None:
    """The policy of the page stands behind the care of its script."""
    ready(browser, service)
    browser.run(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        " '<img src=x onerror=window.harmed=1><a id=bad href=\"javascript:window.harmed=1\">x</a>')"
    )
    browser.run("document.getElementById('bad').click()")
    until(browser, "document.querySelector('main img').complete")
    assert browser.run("window.harmed === undefined")
    assert any("Content Security Policy" in str(one) for one in browser.complaints)


def test_a_service_with_keys_asks_for_one(browser: Browser, tiny: Path, tmp_path: Path) -> None:
    key = add_key("me", tmp_path / "keys.yaml", None, None)
    with start_service(
        f"tiny={tiny}", "--engines", "1", "--limit", "wait=60", "--keys", str(tmp_path / "keys.yaml")
    ) as asks:
        opened(browser, asks)
        until(browser, "document.getElementById('status').textContent === 'this service asks for a key'")
        assert not browser.run("document.getElementById('key-row').hidden")
        browser.choose(key=key)
        until(browser, "document.querySelectorAll('#model option').length === 1")
        typed(browser, "two red dogs.")
        clicked(browser, "button")
        assert translated(browser) == "zwei rote Hunde."


def test_an_error_is_shown(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    browser.run("document.getElementById('source').value = 'a'.repeat(20001)")
    clicked(browser, "button")
    until(browser, "document.getElementById('status').textContent.includes('20,001 characters')")
    assert browser.run("document.getElementById('status').classList.contains('wrong')")


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_narrow_screen_and_a_wide_one(browser: Browser, service: ServiceProcess, width: int) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False)
    try:
        ready(browser, service)
        typed(browser, "two red dogs. " + "Donaudampfschifffahrtsgesellschaft" * 5)
        clicked(browser, "button")
        translated(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.request("Emulation.clearDeviceMetricsOverride")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, service: ServiceProcess, look: str) -> None:
    with browser.look(look) as width:
        ready(browser, service)
        assert browser.violations() == []
        typed(browser, "two red dogs. ten old houses.")
        clicked(browser, "button")
        translated(browser)
        assert browser.violations() == []
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_tab_reaches_everything(browser: Browser, service: ServiceProcess) -> None:
    ready(browser, service)
    typed(browser, "two red dogs.")
    clicked(browser, "button")
    translated(browser)
    names = browser.check_tour()
    assert "Translate" in names
    assert {"rote", "Hunde."} <= set(names)
