"""A real browser, spoken to over two pipes: for pages that must work from a file, without network, by keyboard."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CODES = {
    "Tab": 9,
    "Enter": 13,
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
        answer = self.request("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

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
