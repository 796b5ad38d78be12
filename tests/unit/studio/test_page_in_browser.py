"""The studio in a real browser: its numbers are Python's, its commands print the same, and everyone can use it."""

import json
import re
import shlex
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browser import CHROMIUM, CODES, Browser
from typer.testing import CliRunner

from dragoman.bundle import demo_folder
from dragoman.cli.main import app
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.view import MapChoice

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 120.0
AXE = Path(__file__).parents[3] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
TEXT = "A woman is reading a book in the garden."
LONG = " ".join(["Two young men in blue shirts are standing on a wet street,"] * 4)
HOSTILE = "<img src=x onerror=window.harmed=1>'\"\\</script><script>window.harmed=1</script> dogs"
CROSS = "decoder.layers.2.cross_attention"
CODES |= {key: ord(key.upper()) for key in "rmx1345"} | {"/": 191, "[": 219, "]": 221, ".": 190, " ": 32, "?": 191}


@pytest.fixture(scope="module")
def inspector() -> Inspector:
    return Inspector.load(demo_folder())


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not browser.run(expression):
        assert time.monotonic() < end, f"{expression}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def opened(browser: Browser, address: str, text: str = TEXT, **fields: object) -> None:
    """The studio with a state in its address, when the picture is complete."""
    page, _, token = address.partition("#")
    fragment = "&".join(f"{name}={quote(str(value))}" for name, value in {"text": text, **fields}.items())
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&{fragment}")
    browser.wait("Page.loadEventFired")
    complete(browser)


def complete(browser: Browser) -> None:
    until(browser, "/cross-attention|first choice/.test(document.querySelector('.trust')?.innerText ?? '')")
    until(browser, "!document.querySelector('.busy')")


def pressed(browser: Browser, *keys: str) -> None:
    """Outside of every field."""
    browser.run("document.activeElement.blur()")
    for key in keys:
        down = {"type": "keyDown", "text": key} if len(key) == 1 else {"type": "rawKeyDown"}
        for event in (down, {"type": "keyUp"}):
            browser.request("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=CODES[key], **event)


def numbers(browser: Browser) -> np.ndarray:
    browser.run("document.querySelector('figure details').open = true")
    until(browser, "document.querySelector('figure table') !== null")
    rows = "[...document.querySelectorAll('figure tbody tr')]"
    return np.array(browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.innerText))"))


def command(browser: Browser) -> list[str]:
    return shlex.split(browser.run("document.querySelector('footer code').innerText"))


CHOICES = {
    "a head": MapChoice("cross", 2, 1, "written", "attention"),
    "words": MapChoice("cross", 0, 2, "read", "norm", by_word=True),
    "without marks": MapChoice("encoder", 1, "mean", "written", "attention", hide_sinks=True),
    "the decoder": MapChoice("decoder", 0, 0, "read", "norm"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_number_of_the_map_is_pythons(browser: Browser, address: str, inspector: Inspector, name: str) -> None:
    choice = CHOICES[name]
    flags = {"words": 1} if choice.by_word else {"hide-marks": 1} if choice.hide_sinks else {}
    opened(
        browser, address, kind=choice.kind, layer=choice.layer, head=choice.head, rows=choice.rows,
        measure=choice.measure, **flags,
    )  # fmt: skip
    expected = choice.view(inspector.trace(TEXT)).matrix
    shown = numbers(browser)
    digits = np.where(expected < 0.1, 0.0005, np.where(expected < 10, 0.005, 0.05))
    # Half precision is exact to 1 in 2,048.
    assert (abs(shown - expected) <= digits + expected / 2048).all()
    assert shown.any()


def test_the_command_prints_what_the_page_shows(browser: Browser, address: str) -> None:
    heads = f"{CROSS}.0,encoder.layers.0.self_attention"
    opened(browser, address, off=heads, kind="cross", layer=1, head=3, rows="read", measure="attention")
    words = command(browser)
    assert words[0] == "dragoman"
    printed = CliRunner().invoke(app, [*words[1:-2], "--csv", "-", *words[-2:]])
    assert printed.exit_code == 0, printed.output
    lines = [line.split(",") for line in printed.stdout.splitlines()]
    table = numbers(browser)
    found = [line[-table.shape[1] :] for line in lines if len(line) > table.shape[1]][-len(table) :]
    np.testing.assert_allclose(table, np.array(found, np.float64), atol=0.006)


def test_a_head_that_is_switched_off_changes_what_it_changes_in_python(
    browser: Browser, address: str, inspector: Inspector
) -> None:
    opened(browser, address, kind="cross", layer=2, head=0)
    pressed(browser, "x")
    until(browser, "/changed on purpose/.test(document.querySelector('.trust')?.innerText ?? '')")
    changed = inspector.trace(TEXT, interventions=[HeadsOff(where=CROSS, heads=(0,))])
    trust = browser.text(".trust").replace("\u2212", "-")
    assert f"log-probability {changed.log_probabilities.sum():.2f}" in trust
    assert browser.run(
        "[...document.querySelectorAll('.line.target button')].map((word) => word.innerText).join(' ')"
    ) == (changed.target.text)
    pressed(browser, "4")
    before = inspector.trace(TEXT).log_probabilities.sum()
    shown = browser.text("table").replace("\u2212", "-")
    assert f"{before:.2f}" in shown
    assert f"{changed.log_probabilities.sum():.2f}" in shown
    pressed(browser, "1", "x")
    until(browser, "!/changed on purpose/.test(document.querySelector('.trust')?.innerText ?? '')")


def test_a_forced_token_begins_another_translation(browser: Browser, address: str, inspector: Inspector) -> None:
    opened(browser, address, view="theatre")
    trace = inspector.trace(TEXT, history=True)
    token = trace.history[0][1].token
    browser.run("document.querySelector('[data-node=\"0-1\"]').click()")
    until(browser, "document.querySelector('.branch') !== null")
    branch = inspector.trace(TEXT, prefix=[token])
    assert branch.target.text != trace.target.text
    assert branch.target.text in browser.text(".branch table")
    assert trace.target.text in browser.text(".branch table")
    assert f"prefix={token}" in browser.run("location.hash")
    assert command(browser)[2:4] == ["--prefix", trace.pieces[token].strip("▁")]


def test_it_is_used_by_keys_alone(browser: Browser, address: str) -> None:
    opened(browser, address, kind="cross", layer=0, head=0, rows="written", measure="attention", cell="0.0")
    pressed(browser, "]", ".", "r", "m", "ArrowDown", "ArrowRight", "ArrowRight")
    until(browser, "/layer=1&head=1&rows=read&measure=norm&cell=1.2/.test(location.hash)")
    pressed(browser, "/")
    assert browser.run("document.activeElement.type") == "text"
    browser.request("Input.insertText", text="A dog runs.")
    browser.press("Enter")
    until(browser, "/A\\+dog\\+runs/.test(location.hash)")
    complete(browser)
    assert "A dog runs." in browser.run("document.querySelector('.line.source').innerText.replaceAll('\\n', ' ')")
    pressed(browser, "3", " ")
    assert browser.run("document.querySelector('output').innerText").startswith("1 of")
    pressed(browser, "?")
    assert browser.run("document.querySelector('dialog').open")


def cell_numbers(browser: Browser) -> list[str]:
    """The numbers of the chain of steps that a pocket calculator would print, those of the chosen key."""
    chain = browser.run("[...document.querySelectorAll('.cell nav .value')].map((one) => one.textContent)")
    return [number for value in chain for number in re.findall(r"-?\d+\.\d{4}", value.replace("\u2212", "-"))]


def weights(browser: Browser) -> list[str]:
    return browser.run("[...document.querySelectorAll('.cell .weight')].map((one) => one.textContent)")


def until_cell(browser: Browser, condition: str = "true") -> None:
    until(browser, f"document.querySelector('.cell[aria-busy=false]') !== null && ({condition})")


def test_the_cell_shows_what_its_command_prints(browser: Browser, address: str, tmp_path: Path) -> None:
    opened(browser, address, view="cell", kind="cross", layer=1, head=2, cell="3.1")
    until_cell(browser)
    words = command(browser)
    assert words[:2] == ["dragoman", "explain"]
    printed = CliRunner().invoke(app, words[1:])
    assert printed.exit_code == 0, printed.output
    shown = cell_numbers(browser)
    assert len(shown) >= 10
    assert all(re.search(rf"(?<![\d.-]){re.escape(number)}(?!\d)", printed.stdout) for number in shown)
    saved = CliRunner().invoke(app, [*words[1:-2], "--json", str(tmp_path / "a.json"), *words[-2:]])
    assert saved.exit_code == 0, saved.output
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert weights(browser) == [f"{weight:.4f}" for weight in data["model_weights"]]
    assert [data["attention"], data["head"], data["row"]] == ["decoder.layers.1.cross_attention", 2, 3]


def test_the_cell_is_used_by_keys_alone_and_its_state_is_in_the_address(browser: Browser, address: str) -> None:
    opened(browser, address, kind="cross", layer=0, head=1, rows="written", measure="attention", cell="2.3")
    pressed(browser, "5")
    until_cell(browser)
    own = weights(browser)
    pressed(browser, "ArrowDown", "ArrowRight", ".", "]")
    until(browser, "/view=cell.*layer=1&head=2&rows=written&measure=attention&cell=3.4/.test(location.hash)")
    until_cell(browser)
    assert weights(browser) != own
    browser.run("document.activeElement.blur()")
    for _ in range(60):
        browser.press("Tab")
        if browser.run("document.activeElement.type") == "range":
            break
    own = weights(browser)
    browser.press("Home")
    until(browser, "/divisor=1(&|$)/.test(location.hash)")
    assert "1" in browser.run(
        "document.activeElement.ariaValueText ?? document.activeElement.getAttribute('aria-valuetext')"
    )
    changed = weights(browser)
    assert max(map(float, changed)) > max(map(float, own))
    pressed(browser, " ", " ")
    until(browser, "/step=7/.test(location.hash)")
    assert browser.run("document.activeElement.getAttribute('aria-label')").startswith("Step 8 of")
    state = browser.run("location.hash").removeprefix("#")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{address}&{state}")
    until_cell(browser, "document.querySelector('[aria-current=step]') !== null")
    assert weights(browser) == changed
    assert browser.run("document.querySelector('.cell .step').getAttribute('aria-label')").startswith("Step 8 of")
    browser.run("document.querySelector('.cell .reset').click()")
    assert weights(browser) == own


def test_words_and_hidden_marks_become_tokens_in_the_cell(browser: Browser, address: str) -> None:
    opened(browser, address, **{"view": "cell", "kind": "cross", "words": 1, "hide-marks": 1, "rows": "read"})
    until_cell(browser)
    assert not re.search("words=|hide-marks=|rows=read", browser.run("location.hash"))
    chosen = browser.run("document.querySelector('.cell .key.chosen .weight').textContent")
    assert "--key" in command(browser)
    assert re.fullmatch(r"\d\.\d{4}", chosen)


def test_hostile_text_stays_text(browser: Browser, address: str) -> None:
    opened(browser, address, HOSTILE)
    assert browser.run("window.harmed") is None
    assert browser.run("document.querySelectorAll('#app img, #app script').length") == 0
    assert command(browser)[-1] == HOSTILE


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_refused(browser: Browser, address: str) -> None:
    opened(browser, address)
    assert browser.complaints == []
    page = address.partition("#")[0]
    assert all(url.startswith((page, "data:")) for url in browser.requested)
    assert "token" not in browser.run("location.href")


def test_without_the_token_the_page_says_what_to_do(browser: Browser, address: str) -> None:
    page = address.partition("#")[0]
    browser.request("Page.navigate", url=page)
    browser.wait("Page.loadEventFired")
    browser.run("localStorage.clear()")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}?again")
    browser.wait("Page.loadEventFired")
    until(browser, "document.querySelector('[role=alert]') !== null")
    assert "dragoman studio" in browser.text("[role=alert]")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("view", ["see", "heads", "theatre", "operate", "cell"])
def test_axe_finds_nothing(browser: Browser, address: str, view: str, width: int, is_dark: bool) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    browser.request("Emulation.setEmulatedMedia", features=[scheme])
    opened(browser, address, view=view, off=f"{CROSS}.1", **({"divisor": 3} if view == "cell" else {}))
    if view == "cell":
        until_cell(browser)
    browser.run(AXE.read_text(encoding="utf-8") + ";0")
    browser.run(
        "axe.run(document, {resultTypes: ['violations']}).then((found) => { window.found = found.violations; }); 0"
    )
    until(browser, "window.found !== undefined")
    summary = (
        "found.map(({id, nodes}) => [id, nodes.slice(0, 3).map(({html, failureSummary}) => html + failureSummary)])"
    )
    assert browser.run(summary) == []
    browser.request("Emulation.setEmulatedMedia", features=[])
    browser.request("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "long"])
def test_the_map_is_above_the_fold_and_nothing_overflows(
    browser: Browser, address: str, width: int, height: int, text: str
) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    opened(browser, address, text)
    assert browser.run("document.documentElement.scrollWidth") <= width
    top = browser.run("document.querySelector('.field').getBoundingClientRect().top")
    assert top < (0.65 if text == TEXT else 1.0) * height
    browser.request("Emulation.clearDeviceMetricsOverride")
