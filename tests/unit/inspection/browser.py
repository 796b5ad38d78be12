"""A real browser, spoken to over two pipes: for pages that must work from a file, without network, by keyboard."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None and os.environ.get("CI") == "true":
    raise RuntimeError("CI has to test the pages: install chromium")  # elsewhere these tests are skipped
AXE = Path(__file__).parents[3] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_S = 120.0
LOOKS = {
    "wide": (1440, 900, 1, "light"),
    "dark": (1440, 900, 1, "dark"),
    "phone": (390, 844, 1, "light"),
    "dark phone": (390, 844, 1, "dark"),
    "zoomed": (720, 450, 2, "light"),
}
"""Width, height, zoom and colour scheme of a window; a zoom of 200 % leaves half of the width."""
TOUR = """
(() => {
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex], [role=application]";
  const top = document.querySelector("dialog[open]") ?? document.body;
  const isStop = (one) => one.tabIndex >= 0;
  const groupOf = (one) => one.closest("section, [role=group], .ribbons") ?? one.parentElement;
  const isOfGroup = (one) => one.matches("button") && groupOf(one).querySelector("button[tabindex='0']");
  const isHere = (one) => !one.disabled && one.checkVisibility({visibilityProperty: true});
  const found = [...top.querySelectorAll(kinds)].filter(isHere);
  window.stops = found.filter((one) => isStop(one) || !(isOfGroup(one) || one.matches("section")));
  window.reached = new Set();
  document.activeElement?.blur();
  top.tabIndex = -1;
  top.focus({preventScroll: true});
  return window.stops.length;
})()
"""
STOP = """
(() => {
  const one = document.activeElement;
  if (one === document.body || window.reached.has(one)) return null;
  window.reached.add(one);
  const name = (one.getAttribute("aria-label") ?? one.innerText ?? one.id).slice(0, 60);
  const ringed = (element) => {
    const {outlineStyle, outlineWidth} = getComputedStyle(element);
    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
  };
  const around = [one, one.parentElement, one.closest("fieldset") ?? one, ...(one.labels ?? [])];
  const box = one.getBoundingClientRect();
  const isSeen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return [one.tagName, name, around.some(ringed) && isSeen];
})()
"""
MISSED = """
window.stops.filter((one) => {
  const same = one.type === "radio" ? [...document.getElementsByName(one.name)] : [one];
  return !same.some((other) => window.reached.has(other));
}).map((one) => one.outerHTML.slice(0, 160))
"""
CODES = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class Browser:
    """A headless chromium that is driven over two pipes (the DevTools protocol)."""

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
        target = self.request("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.request("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.request(f"{domain}.enable")

    def request(self, method: str, **params: object) -> dict[str, Any]:
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
        self.request("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def wait(self, method: str) -> None:
        """Until this has happened, since a page was opened or the events were cleared."""
        while not any(event["method"] == method for event in self.events):
            self.events.append(self._next())

    @property
    def requested(self) -> list[str]:
        """Every address that the page wanted something from."""
        wanted = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in wanted]

    @property
    def complaints(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["method"] in {"Log.entryAdded", "Runtime.exceptionThrown"}]

    def run(self, expression: str) -> Any:
        """Return the value of an expression; of a promise, what it promises."""
        answer = self.request("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = PATIENCE_S) -> None:
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"{expression}: {self.run('document.body.innerText')}"
            time.sleep(0.02)

    @contextmanager
    def look(self, name: str) -> Iterator[int]:
        """Open pages in one of the LOOKS; yields its width."""
        width, height, zoom, scheme = LOOKS[name]
        size = {"width": width, "height": height, "deviceScaleFactor": zoom, "mobile": width < 400}
        self.request("Emulation.setDeviceMetricsOverride", **size)
        self.request("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        try:
            yield width
        finally:
            self.request("Emulation.setEmulatedMedia", features=[])
            self.request("Emulation.clearDeviceMetricsOverride")

    def check_tour(self) -> list[str]:
        """Press Tab from the beginning of the page, or of its dialog, to the end; return the names of the stops.

        Every field, button and link is reached, each shows that it has the focus, and no element keeps it. Of radio
        buttons one is a stop, as the arrow keys go on; so it is with buttons of which one has a tabindex of 0.
        """
        count, names, unseen = self.run(TOUR), list[str](), list[object]()
        for _ in range(count + 2):
            self.press("Tab")
            stop = self.run(STOP)
            if stop is None:
                break
            names.append(stop[1])
            if not stop[2]:
                unseen.append(stop)
        else:
            raise AssertionError(f"Tab finds no end: {names}")
        missed = self.run(MISSED)
        assert not missed, f"Tab does not reach {missed}"
        assert not unseen, f"nothing shows that these have the focus: {unseen}"
        return names

    def violations(self) -> list[Any]:
        """Return what axe finds in the page as it is now: rules with the first elements that break them."""
        self.run(AXE.read_text(encoding="utf-8") + ";0")
        parts = "nodes.slice(0, 3).map(({html, failureSummary}) => html + failureSummary)"
        found = f"violations.map(({{id, nodes}}) => [id, {parts}])"
        return list(self.run(f"axe.run(document, {{resultTypes: ['violations']}}).then(({{violations}}) => {found})"))

    def press(self, *keys: str) -> None:
        for key in keys:
            down = {"type": "keyDown", "text": "\r"} if key == "Enter" else {"type": "rawKeyDown"}
            for event in (down, {"type": "keyUp"}):
                self.request("Input.dispatchKeyEvent", key=key, code=key, windowsVirtualKeyCode=CODES[key], **event)

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
        self.request("Browser.close")
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        opened = Browser(home)
        yield opened
        opened.close()
