"""Watch in a real browser: a new line of a log within two seconds, its numbers, keys, and nothing for axe to find."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from runs import validation, write_probe, write_run

from dragoman.inspection.evolution import load_sentence

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

PATIENCE_S = 60.0
CODES |= {key: ord(key.upper()) for key in "15r"} | {"[": 219, "]": 221, ",": 188, ".": 190, " ": 32, "?": 191}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a studio, and the folder of the run that it shows, which has no model yet."""
    run = write_run(tmp_path_factory.mktemp("watch") / "run")
    command = [sys.executable, "-m", "dragoman", "studio", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), run
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert errors == ""  # although a page was still open


def until(browser: Browser, expression: str, seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not browser.run(expression):
        assert time.monotonic() < end, f"{expression}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def opened(browser: Browser, address: str, fragment: str = "") -> None:
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{address}{fragment}")
    browser.wait("Page.loadEventFired")
    until(browser, "document.querySelector('.field') !== null")


def pressed(browser: Browser, *keys: str) -> None:
    browser.run("document.activeElement.blur()")
    for key in keys:
        down = {"type": "keyDown", "text": key} if len(key) == 1 else {"type": "rawKeyDown"}
        for event in (down, {"type": "keyUp"}):
            browser.request("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=CODES[key], **event)


def append(run: Path, event: dict[str, object]) -> None:
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def numbers(browser: Browser) -> np.ndarray:
    browser.run("document.querySelector('.map figure details').open = true")
    until(browser, "document.querySelector('.map figure table') !== null")
    rows = "[...document.querySelectorAll('.map figure tbody tr')]"
    return np.array(browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.innerText))"))


def test_a_run_opens_with_its_state_curves_samples_and_attention(browser: Browser, studio: tuple[str, Path]) -> None:
    address, run = studio
    opened(browser, address)
    assert browser.text("h2") == "Stopped at update 200"
    captions = browser.run("[...document.querySelectorAll('.curves figcaption')].map((one) => one.innerText)")
    assert [caption.split()[0] for caption in captions] == ["Loss", "Validation", "Learning", "Tokens/s"]
    assert "6.00" in captions[0]
    assert "20.0" in captions[1]
    assert "three old dogs 200" in browser.text(".samples")
    expected = load_sentence(run / "probe" / "00000200", 0)
    name = browser.run("new URLSearchParams(location.hash.slice(1)).get('layer')")
    head = int(browser.run("new URLSearchParams(location.hash.slice(1)).get('head')"))
    shown = numbers(browser)
    np.testing.assert_allclose(shown, expected.attention[f"decoder.layers.{name}.cross_attention"][head], atol=0.006)
    assert browser.complaints == []
    page = address.partition("#")[0]
    assert all(url.startswith((page, "data:")) for url in browser.requested)


def test_a_line_of_the_log_is_shown_within_two_seconds(browser: Browser, studio: tuple[str, Path]) -> None:
    address, run = studio
    opened(browser, address)
    update = {"event": "update", "update": 250, "seconds": 125.0, "rate": 1e-4, "loss": 4.25, "tokens_per_second": 10}
    for event, shown in (
        (update, "document.querySelector('.curves').innerText.includes('4.25')"),
        (validation(300, 31.5), "document.querySelector('.samples').innerText.includes('three old dogs 300')"),
        ({"event": "left out", "update": 310, "reason": "loss is nan"}, "/loss is nan/.test(document.body.innerText)"),
    ):
        append(run, event)
        until(browser, shown, 2.0)
    write_probe(run, 300)
    until(browser, "document.querySelector('output').innerText.startsWith('update 300')", 3.0)


def test_time_is_chosen_by_keys_and_kept_in_the_address(browser: Browser, studio: tuple[str, Path]) -> None:
    address, run = studio
    opened(browser, address, "&view=watch&at=00000100&kind=cross&layer=0&head=0&sentence=2")
    until(browser, "document.querySelector('output').innerText.startsWith('update 100')")
    assert "a house 100" in browser.text(".samples")
    expected = load_sentence(run / "probe" / "00000100", 1).attention["decoder.layers.0.cross_attention"]
    np.testing.assert_allclose(numbers(browser), expected[0], atol=0.006)
    pressed(browser, " ", "]", ".", "r")
    until(browser, "/at=00000200&sentence=2.*layer=1&head=1&rows=read/.test(location.hash)")
    command = browser.text("footer code").split()
    assert command[:2] == ["dragoman", "evolve"]
    assert command[3:9] == ["--sentence", "2", "--layer", "1", "--head", "1"]
    browser.run("document.querySelector('input[type=range]').focus()")
    browser.press("Home")
    until(browser, "document.querySelector('output').innerText.startsWith('update 0')")
    assert browser.run("document.querySelector('input[type=range]').ariaValueText") == "update 0"
    browser.run("document.querySelectorAll('tbody th button')[4].click()")
    until(browser, "/layer=1&head=1/.test(location.hash)")
    pressed(browser, "?")
    assert browser.run("document.querySelector('dialog').open")


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, studio: tuple[str, Path], look: str) -> None:
    with browser.look(look) as width:
        opened(browser, studio[0])
        assert browser.run("document.querySelector('.curves').getBoundingClientRect().top") < 450
        browser.run("for (const details of document.querySelectorAll('details')) details.open = true; 0")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, studio: tuple[str, Path]) -> None:
    opened(browser, studio[0])
    browser.run("for (const details of document.querySelectorAll('details')) details.open = true; 0")
    assert "Copy as command" in browser.check_tour()
