"""The page in a real browser: from a file, without network, by keyboard."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.inspection.page import save_page
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import view, word_view

Traced = Callable[..., Trace]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


class Browser:
    """A headless chromium that is spoken to over two pipes (the DevTools protocol)."""

    def __init__(self, home: str) -> None:
        (ours, out), (to, theirs) = os.pipe(), os.pipe()
        quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
        silent = [*quiet, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
        options = [*silent, "--remote-debugging-pipe", f"--user-data-dir={home}"]
        # The protocol wants its pipes as 3 and 4; the shell can put them there.
        start = ["bash", "-c", f'exec "$@" 3<&{to} 4>&{out}', "bash", str(CHROMIUM), *options, "about:blank"]
        self.process = subprocess.Popen(start, pass_fds=(to, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to)
        os.close(out)
        self.reading, self.writing = os.fdopen(ours, "rb", buffering=0), os.fdopen(theirs, "wb", buffering=0)
        self.rest, self.count, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self.count += 1
        session = {"sessionId": self.session} if self.session else {}
        message = {"id": self.count, "method": method, "params": params, **session}
        self.writing.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        self.events.clear()
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.ask("Input.dispatchKeyEvent", type="rawKeyDown", key=key, code=key, windowsVirtualKeyCode=_CODES[key])
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=_CODES[key])

    def choose(self, **values: str) -> None:
        for name, value in values.items():
            element = f"document.getElementById({name!r})"
            self.run(f"{element}.value = {value!r}; {element}.dispatchEvent(new Event('change', {{bubbles: true}}))")

    def numbers(self) -> np.ndarray:
        """Of the table twin."""
        rows = "[...document.querySelectorAll('#table tbody tr')]"
        return np.array(
            self.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.textContent))")
        )

    def text(self, selector: str) -> str:
        found = self.run(f"document.querySelector({selector!r}).textContent")
        return re.sub("[\u2068\u2069]", "", found)

    def close(self) -> None:
        self.session = ""
        self.ask("Browser.close")
        self.process.wait(timeout=20)
        self.reading.close()
        self.writing.close()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = os.read(self.reading.fileno(), 1 << 20)
            assert part, "the browser is gone"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)


_CODES = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        opened = Browser(home)
        yield opened
        opened.close()


def shown(browser: Browser, trace: Trace, folder: Path) -> Trace:
    save_page(trace, folder / "page.html")
    browser.open(folder / "page.html")
    browser.run(
        "const twin = document.getElementById('twin'); twin.open = true; twin.dispatchEvent(new Event('toggle'))"
    )
    return trace


def test_it_opens_from_a_file_asks_for_nothing_and_has_no_complaints(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    shown(browser, traced(), tmp_path)
    asked = [
        event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [(tmp_path / "page.html").as_uri()]
    said = [event for event in browser.events if event["method"] in {"Log.entryAdded", "Runtime.exceptionThrown"}]
    assert said == []
    assert browser.run("document.querySelectorAll('#map rect').length") > 4 * 6
    assert browser.run("getComputedStyle(document.getElementById('choices')).display") == "flex"


def test_arrow_keys_move_from_cell_to_cell_and_each_value_is_announced(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    seen = view(shown(browser, traced(), tmp_path))
    # By Tab alone: five choices, the toggle, then the map.
    browser.press(*["Tab"] * 7)
    assert browser.run("document.activeElement.id") == "map"
    for keys, row, column in [
        (["ArrowRight", "ArrowRight", "ArrowDown"], 1, 2),
        (["ArrowLeft"], 1, 1),
        (["ArrowUp", "ArrowUp", "End"], 0, 5),
        (["Home"], 0, 0),
    ]:
        browser.press(*keys)
        said = f"{seen.rows[row]} (written) looked at {seen.columns[column]}: {seen.matrix[row, column]:.3f}"
        assert browser.text("#live") == said
        assert browser.text("#readout") == said


def test_every_choice_shows_what_the_library_shows(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = shown(browser, traced(), tmp_path)
    np.testing.assert_allclose(browser.numbers(), view(trace).matrix, atol=6e-4)
    browser.choose(kind="decoder", layer="0", head="2", rows="read", measure="norm")
    expected = view(trace, 0, 2, kind="decoder", rows="read", measure="norm")
    np.testing.assert_allclose(browser.numbers(), expected.matrix, atol=6e-4)
    assert browser.text("#caption") == expected.caption
    assert browser.run("[...document.querySelectorAll('#table tbody th')].map((one) => one.textContent)") == list(
        expected.rows
    )
    assert browser.text("#sinks").startswith(f"{expected.sink_share:.0%} of it rests on sinks")
    browser.run("document.getElementById('hide').click()")
    hidden = expected.without_sinks()
    np.testing.assert_allclose(browser.numbers(), hidden.matrix, atol=6e-4)
    assert "renormalised" in browser.text("#sinks")


@pytest.mark.parametrize("rows", ["written", "read"])
def test_ribbons_lead_each_word_to_where_it_looked_most(
    browser: Browser, traced: Traced, tmp_path: Path, rows: str
) -> None:
    trace = shown(browser, traced(target=("▁H", "ow", "▁are", "▁you", "</s>")), tmp_path)
    browser.choose(rows=rows)
    given = word_view(trace, rows=rows)
    best = given.matrix.argmax(axis=1)
    links = [
        f"{word} to {given.columns[j]} ({given.matrix[i, j]:.2f})"
        for i, (word, j) in enumerate(zip(given.rows, best, strict=True))
    ]
    assert browser.text("#links") == f"Most of all: {', '.join(links)}."


def test_hostile_tokens_are_only_text(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    source = (
        "</script><script>window.harmed=1</script>",
        "<img/src=x/onerror=window.harmed=1>",
        "<!--<script>",
        "</s>",
    )
    shown(browser, traced(source=source), tmp_path)
    assert browser.run("window.harmed === undefined")
    labels = "[...document.querySelectorAll('#table thead th')].slice(1).map((one) => one.textContent)"
    assert browser.run(labels) == list(source)


@pytest.mark.parametrize("size", [1, 120])
def test_the_smallest_and_a_large_map_are_drawn(browser: Browser, traced: Traced, tmp_path: Path, size: int) -> None:
    tokens = (*(f"▁t{i}" for i in range(size - 1)), "</s>")
    trace = shown(browser, traced(tokens, tokens, 1, 1), tmp_path)
    np.testing.assert_allclose(browser.numbers(), view(trace).matrix, atol=6e-4)
    assert browser.run("document.querySelectorAll('#map > text').length") <= 2 * 60
