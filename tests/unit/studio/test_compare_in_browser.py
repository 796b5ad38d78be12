"""Compare in a real browser: three maps with Python's numbers, for two models with the same or with other tokens."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser
from studio_process import open_studio
from typer.testing import CliRunner

from dragoman.bundle import Card, open_bundle, write_bundle
from dragoman.cli.main import app
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice
from dragoman.models.build import build
from dragoman.models.weights import weights_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = "two red dogs."
CODES |= {key: ord(key.upper()) for key in "16rm"} | {"[": 219, "]": 221, ",": 188, ".": 190}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two models with the same vocabulary, one of them deeper and untrained, and a recurrent one with another."""
    bundle = open_bundle(GOLDEN / "v1")
    config = bundle.info.model.model_copy(update={"num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2})
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("models") / "deep"
    info = bundle.info.model_copy(update={"model": config})
    write_bundle(folder, info, weights_of(build(config)), bundle.vocab, Card(title="untrained"), "float32")
    return {"v1": GOLDEN / "v1", "deep": folder, "recurrent": GOLDEN / "v1-recurrent"}


@pytest.fixture(scope="module")
def studio(folders: dict[str, Path]) -> Iterator[str]:
    models = [f"{name}={folder}" for name, folder in folders.items()]
    with open_studio(*models) as address:
        yield address


@pytest.fixture(scope="module")
def inspectors(folders: dict[str, Path]) -> dict[str, Inspector]:
    return {name: Inspector.load(folder) for name, folder in folders.items()}


def opened(browser: Browser, address: str, **fields: object) -> None:
    page, _, token = address.partition("#")
    state = {"view": "compare", "model": "v1", "text": TEXT, **fields}
    fragment = "&".join(f"{name}={quote(str(value))}" for name, value in state.items())
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=f"{page}#{token}&{fragment}")
    browser.wait("Page.loadEventFired")
    complete(browser)


def complete(browser: Browser) -> None:
    browser.until("document.querySelector('.compare[aria-busy=false]') !== null")


def pressed(browser: Browser, *keys: str) -> None:
    """Outside of every field."""
    browser.run("document.activeElement.blur()")
    for key in keys:
        down = {"type": "keyDown", "text": key} if len(key) == 1 else {"type": "rawKeyDown"}
        for event in (down, {"type": "keyUp"}):
            browser.request("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=CODES[key], **event)


def tab_to(browser: Browser, condition: str) -> None:
    """Press Tab until the element with the focus meets a condition."""
    for _ in range(60):
        browser.press("Tab")
        if browser.run(f"((one) => {condition})(document.activeElement)"):
            return
    pytest.fail(f"Tab finds nothing for {condition}")


def tables(browser: Browser) -> list[np.ndarray]:
    """The numbers of A, B and A - B."""
    browser.run("document.querySelector('.compare details').open = true")
    browser.until("document.querySelectorAll('.compare table').length === 3")
    cells = "[...row.querySelectorAll('td')].map((one) => one.innerText)"
    rows = f"[...table.querySelectorAll('tbody tr')].map((row) => {cells})"
    found = browser.run(f"[...document.querySelectorAll('.compare table')].map((table) => {rows})")
    return [np.array([[float(cell.replace("\u2212", "-")) for cell in row] for row in rows]) for rows in found]


def check(browser: Browser, first: np.ndarray, second: np.ndarray) -> None:
    """Compare the three tables, with the digits that are printed; half precision is exact to 1 in 2,048."""
    a, b, difference = tables(browser)
    for shown, expected in ((a, first), (b, second)):
        digits = np.where(expected < 0.1, 0.0005, np.where(expected < 10, 0.005, 0.05))
        assert (abs(shown - expected) <= digits + expected / 2048).all()
    largest = np.maximum(first, second)
    digits = np.where(largest < 0.1, 0.0005, np.where(largest < 10, 0.005, 0.05))
    assert (abs(difference - (first - second)) <= digits + largest / 1024).all()
    assert (difference > 0).any()
    assert (difference < 0).any()
    stated = re.search(r"largest [+\u2212]([\d.]+)", browser.text("figure:last-of-type figcaption"))
    assert stated
    assert float(stated[1]) == pytest.approx(abs(first - second).max(), abs=0.006)


def log_probability(trace: Trace) -> str:
    return f"{trace.log_probabilities.sum():.2f}".replace("-", "\u2212")


@pytest.mark.parametrize(
    "choice",
    [
        MapChoice("cross", 0, 1, "written", "attention"),
        MapChoice("cross", 0, "mean", "read", "norm"),
        MapChoice("encoder", 0, 0, "written", "attention"),
        MapChoice("decoder", 0, 1, "read", "attention", hide_sinks=True),
    ],
    ids=["cross", "norm", "encoder", "decoder"],
)
def test_every_number_is_pythons(
    browser: Browser, studio: str, inspectors: dict[str, Inspector], choice: MapChoice
) -> None:
    flags = {"hide-marks": 1} if choice.hide_sinks else {}
    opened(
        browser, studio, other="deep", kind=choice.kind, layer=choice.layer, head=choice.head, rows=choice.rows,
        measure=choice.measure, **flags,
    )  # fmt: skip
    first = inspectors["v1"].trace(TEXT)
    second = inspectors["deep"].trace(TEXT, first.target.text)
    views = choice.view(first), choice.view(second)
    empty = [*views[0].empty_rows, *views[1].empty_rows]
    for view in views:
        view.matrix[empty] = 0
    check(browser, views[0].matrix, views[1].matrix)
    a, b = (browser.text(f"section[aria-label='Model {name}']") for name in "AB")
    assert first.target.text in a
    assert log_probability(first) in a
    own = inspectors["deep"].trace(TEXT)
    assert log_probability(own) in b
    assert log_probability(second) in b
    assert own.target.text != first.target.text
    assert browser.complaints == []


def test_a_layer_and_head_that_b_lacks_become_the_nearest(
    browser: Browser, studio: str, inspectors: dict[str, Inspector]
) -> None:
    fields = {"kind": "cross", "layer": 1, "head": 3, "rows": "written", "measure": "attention"}
    opened(browser, studio, model="deep", other="v1", traced="other", **fields)
    second = inspectors["v1"].trace(TEXT)
    first = inspectors["deep"].trace(TEXT, second.target.text)
    check(
        browser,
        MapChoice("cross", 1, 3, "written", "attention").view(first).matrix,
        MapChoice("cross", 0, 1, "written", "attention").view(second).matrix,
    )
    assert "layer 0, head 1" in browser.text(".note")
    assert "layer=1&head=3" in browser.run("location.hash")


def test_other_tokens_are_compared_by_words(browser: Browser, studio: str, inspectors: dict[str, Inspector]) -> None:
    opened(browser, studio, other="recurrent", kind="encoder", rows="written", measure="attention", head="mean")
    first = inspectors["v1"].trace(TEXT)
    second = inspectors["recurrent"].trace(TEXT, first.target.text)
    assert first.target.pieces != second.target.pieces
    choice = MapChoice("cross", 0, "mean", "written", "attention", by_word=True)
    check(browser, choice.view(first).matrix, choice.view(second).matrix)
    assert browser.run("document.querySelector('.compare input[type=checkbox]').disabled")
    pressed(browser, "]", "]")
    assert "kind=cross" in browser.run("location.hash")
    assert len(tables(browser)) == 3


def test_the_commands_print_the_maps(browser: Browser, studio: str) -> None:
    opened(browser, studio, other="deep", kind="cross", layer=0, head=0, rows="read", measure="attention")
    lines = browser.run("document.querySelector('footer code').textContent").splitlines()
    assert len(lines) == 2
    for line, table in zip(lines, tables(browser), strict=False):
        words = shlex.split(line)
        assert words[:2] == ["dragoman", "inspect"]
        printed = CliRunner().invoke(app, [*words[1:-2], "--csv", "-", *words[-2:]])
        assert printed.exit_code == 0, printed.output
        rows = [row.split(",") for row in printed.stdout.splitlines()]
        found = [row[-table.shape[1] :] for row in rows if len(row) > table.shape[1]][-len(table) :]
        np.testing.assert_allclose(table, np.array(found, np.float64), atol=0.006)


def test_it_is_used_by_keys_alone_and_its_state_is_in_the_address(browser: Browser, studio: str) -> None:
    fields = {"kind": "cross", "layer": 0, "head": 0, "rows": "written", "measure": "attention", "cell": "1.1"}
    page, _, token = studio.partition("#")
    state = "&".join(f"{name}={value}" for name, value in fields.items())
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{page}#{token}&model=deep&text={quote(TEXT)}&{state}")
    browser.until("document.querySelector('.trust') !== null && !document.querySelector('.busy')")
    pressed(browser, "6")
    complete(browser)
    assert "shorten the target" in browser.text("[role=alert]")  # the untrained model writes more than v1 takes
    tab_to(browser, "one.ariaLabel === 'Model B'")
    assert browser.run("document.activeElement.value") == "v1"
    browser.press("ArrowDown")
    browser.until("/other=recurrent/.test(location.hash)")
    complete(browser)
    browser.press("ArrowUp")
    browser.until("/other=v1/.test(location.hash)")
    complete(browser)
    tab_to(browser, "one.name === 'traced'")
    browser.press("ArrowRight")
    browser.until("/traced=other/.test(location.hash)")
    complete(browser)
    if "words=1" in browser.run("location.hash"):
        browser.run("document.querySelector('.compare input[type=checkbox]').click()")
    pressed(browser, "]", ".", "r", "ArrowDown", "ArrowRight")
    browser.until(
        "/view=compare&model=deep&other=v1&traced=other.*kind=cross&layer=1&head=1&rows=read/.test(location.hash)",
    )
    line = browser.text(".compare .value")
    row, column = (int(number) for number in re.search(r"cell=(\d+)\.(\d+)", browser.run("location.hash")).groups())
    shown = [float(number.replace("\u2212", "-")) for number in re.findall(r"[+\u2212]?\d+\.\d+", line)]
    assert shown == [table[row, column] for table in tables(browser)]
    tab_to(browser, "one.className.includes('field') && one.ariaLabel.startsWith('B')")
    browser.press("ArrowDown")
    browser.until(f"/cell={row + 1}.{column}(&|$)/.test(location.hash)")
    assert browser.text(".compare .value") != line
    state = browser.run("location.hash").removeprefix("#")
    line = browser.text(".compare .value")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{studio}&{state}")
    complete(browser)
    browser.until("document.querySelector('.compare .value') !== null")
    assert browser.text(".compare .value") == line
    assert browser.run("location.hash").removeprefix("#") == state
    pressed(browser, "1")
    browser.until("document.querySelector('.trust') !== null")
    assert re.search(r"^#model=deep&.*layer=1&head=1&rows=read", browser.run("location.hash"))


def test_one_model_has_nothing_to_compare_with(browser: Browser, address: str) -> None:
    page, _, token = address.partition("#")
    browser.request("Page.navigate", url="about:blank")
    browser.request("Page.navigate", url=f"{page}#{token}&view=compare&text=Dogs.")
    browser.until("document.querySelector('.trust') !== null")
    tabs = browser.run("[...document.querySelectorAll('nav[aria-label=Views] button')].map((one) => one.innerText)")
    assert "See" in tabs
    assert "Compare" not in tabs


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, studio: str, look: str) -> None:
    with browser.look(look) as width:
        opened(browser, studio, other="deep", traced="own")
        assert browser.run("document.querySelector('.compare .field').getBoundingClientRect().top") < (
            450 if width > 1000 else 800
        )
        tables(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.violations() == []


def test_tab_reaches_everything(browser: Browser, studio: str) -> None:
    opened(browser, studio, other="deep")
    names = browser.check_tour()
    assert "Model B" in names
    assert sum("heat map" in name or "arrow keys" in name for name in names) == 3
