"""The page of a trace in a real browser: from a file, without network, by keyboard."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from browser import AXE, CHROMIUM, CODES, LOOKS, Browser

from dragoman.bundle.alignment_head import Rows
from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.html_file import save_text
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.inspection.view import MapChoice

Traced = Callable[..., Trace]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

HISTORY = Path(__file__).parents[2] / "golden" / "schema-3.trace"
CODES |= {"2": 50, " ": 32, "]": 221, "r": 82}
LOOKED = "figure [role=status]"


def shown(browser: Browser, trace: Trace, folder: Path, choice: MapChoice | None = None) -> None:
    save_text(trace_page(trace, choice, {"unchanged": "<b>Wie</b>"}), folder / "page.html")
    browser.open(folder / "page.html")
    until(browser, "document.querySelector('.field canvas') !== null")


def until(browser: Browser, expression: str) -> None:
    end = time.monotonic() + 60
    while not browser.run(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.02)


def numbers(browser: Browser) -> np.ndarray:
    """Of the map's table."""
    browser.run("document.querySelector('figure details').open = true")
    until(browser, "document.querySelector('figure table') !== null")
    rows = "[...document.querySelectorAll('figure tbody tr')]"
    return np.array(
        browser.run(f"{rows}.map((row) => [...row.querySelectorAll('td')].map((cell) => +cell.textContent))")
    )


def check_numbers(browser: Browser, expected: np.ndarray) -> None:
    found = numbers(browser)
    digits = np.where(expected < 0.1, 0.0005, np.where(expected < 10, 0.005, 0.05))
    # Half precision is exact to 1 in 2,048; a norm is a product of two such numbers.
    assert (abs(found - expected) <= digits + expected / 1024).all()
    assert found.any()


def labels(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")


def press_button(browser: Browser, name: str) -> None:
    browser.run(f"[...document.querySelectorAll('nav button')].find((one) => one.textContent === {name!r}).click()")


def press_key(browser: Browser, *keys: str) -> None:
    browser.run("document.activeElement.blur()")
    for key in keys:
        for event in ({"type": "keyDown", "text": key}, {"type": "keyUp"}):
            browser.request("Input.dispatchKeyEvent", key=key, windowsVirtualKeyCode=CODES[key], **event)


def plain(labels: tuple[str, ...]) -> list[str]:
    return [label.removeprefix("▁") or label for label in labels]


def digits(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def test_it_opens_from_a_file_asks_for_nothing_and_has_no_complaints(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    shown(browser, traced(), tmp_path)
    assert browser.requested == [(tmp_path / "page.html").as_uri()]
    assert browser.complaints == []
    assert browser.run("document.querySelectorAll('.head canvas').length") == 2 * 3 * 3
    assert browser.text(".note") == "unchanged <b>Wie</b>"
    assert "0123456" in browser.text(".trust")  # the model


def test_arrow_keys_move_from_cell_to_cell_and_each_value_is_announced(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    trace = traced()
    shown(browser, trace, tmp_path)
    seen = MapChoice().view(trace)
    for _ in range(60):  # by Tab alone
        browser.press("Tab")
        if browser.run("document.activeElement.role") == "application":
            break
    browser.press(*["ArrowUp"] * 4, "Home")
    for keys, row, column in [
        (["ArrowRight", "ArrowRight", "ArrowDown"], 1, 2),
        (["ArrowLeft"], 1, 1),
        (["ArrowUp", "ArrowUp", "End"], 0, 5),
        (["Home"], 0, 0),
    ]:
        browser.press(*keys)
        words = f"{plain(seen.rows)[row]} looked at {plain(seen.columns)[column]}"
        assert browser.text(LOOKED) == f"{words}: {digits(seen.matrix[row, column])}"


CHOICES = {
    "default": None,
    "a norm of the decoder": MapChoice("decoder", 0, 2, "read", "norm"),
    "without marks": MapChoice("decoder", 0, 2, "read", "norm", hide_sinks=True),
    "words": MapChoice("cross", 0, "mean", "read", "attention", by_word=True),
    "the encoder": MapChoice("encoder", 1, 1, "written", "attention"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_shows_what_the_library_shows(browser: Browser, traced: Traced, tmp_path: Path, name: str) -> None:
    trace, choice = traced(), CHOICES[name]
    shown(browser, trace, tmp_path, choice)
    seen = (choice or MapChoice()).view(trace)
    check_numbers(browser, seen.matrix)
    assert labels(browser, "figure tbody th") == plain(seen.rows)
    assert labels(browser, "figure thead th") == plain(seen.columns)


def test_the_controls_and_keys_change_the_map_as_the_library_does(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    trace = traced()
    shown(browser, trace, tmp_path, MapChoice("cross", 0, 1))
    press_key(browser, "]", "r")
    check_numbers(browser, MapChoice("cross", 1, 1, "read").view(trace).matrix)
    browser.run("document.querySelector('input[value=norm]').click()")
    check_numbers(browser, MapChoice("cross", 1, 1, "read", "norm").view(trace).matrix)
    browser.run("[...document.querySelectorAll('.check input')].at(-1).click()")
    check_numbers(browser, MapChoice("cross", 1, 1, "read", "norm", hide_sinks=True).view(trace).matrix)


def test_heads_that_are_off_and_rows_with_little_left_are_shown_as_the_library_shows_them(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    trace = traced()
    name = "decoder.layers.1.cross_attention"
    weights = trace.attention[name].copy()
    weights[1] = 0
    weights[:, 2] *= np.array([0.02] * 5 + [9.0], np.float32)
    changed = replace(
        trace, attention={**trace.attention, name: weights}, interventions=(HeadsOff(where=name, heads=(1,)),), norms={}
    )
    shown(browser, changed, tmp_path)
    check_numbers(browser, MapChoice().view(changed).matrix)
    assert "mean of 2 of 3 heads" in browser.text(".map h2")
    assert "1 head off" in browser.text(".trust")
    hidden = MapChoice(hide_sinks=True)
    shown(browser, changed, tmp_path, hidden)
    check_numbers(browser, hidden.view(changed).matrix)
    assert hidden.view(changed).empty_rows == (2,)
    assert browser.text("figure .note").endswith("these rows are empty: you.")


@pytest.mark.parametrize("rows", get_args(Rows))
def test_a_word_lights_up_the_word_where_it_looked_most(
    browser: Browser, traced: Traced, tmp_path: Path, rows: Rows
) -> None:
    trace = traced(target=("▁H", "ow", "▁are", "▁you", "</s>"))
    choice = MapChoice(rows=rows)
    shown(browser, trace, tmp_path, choice)
    expected = replace(choice, by_word=True).view(trace).matrix
    lit = "[...document.querySelectorAll('.source button')].map((one) => +one.style.getPropertyValue('--lit'))"
    for word in range(3):
        browser.run(f"document.querySelectorAll('.target button')[{word}].focus()")
        found = np.array(browser.run(lit))
        share = expected[word] / expected.max()
        np.testing.assert_allclose(found, np.where(share < 0.1, 0, share), rtol=2e-3)
        assert found.argmax() == expected[word].argmax()


def test_a_legend_says_what_the_darkest_colour_is(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = traced()
    shown(browser, trace, tmp_path)
    assert browser.text(".legend").split() == ["0", digits(MapChoice().view(trace).matrix.max())]


def test_the_roles_of_heads_are_pythons_and_a_card_opens_its_map(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    trace = traced(num_layers=1, norms=False)
    name = "decoder.layers.0.cross_attention"
    focused = np.eye(6, dtype=np.float32)[[0, 1, 3, 5]]
    trace = replace(trace, attention={**trace.attention, name: np.stack([trace.attention[name][0], focused, focused])})
    shown(browser, trace, tmp_path)
    press_key(browser, "2")
    cross = [one.label for one in summarise_heads([trace]) if one.kind == "cross"]
    assert labels(browser, ".cards .role")[:3] == cross == ["mixed", "alignment", "alignment"]
    assert sorted(labels(browser, ".cards .role")) == sorted(one.label for one in summarise_heads([trace]))
    browser.run("document.querySelectorAll('.cards button')[1].click()")
    check_numbers(browser, MapChoice("cross", 0, 1).view(trace).matrix)


def test_the_search_is_replayed_if_the_trace_has_it(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = Trace.load(HISTORY)
    shown(browser, trace, tmp_path)
    press_button(browser, "Theatre")
    last = len(trace.history)
    assert browser.text("output") == f"{last} of {last}"
    press_key(browser, " ", " ")
    assert browser.text("output") == f"2 of {last}"
    best = trace.history[0][0]
    assert labels(browser, "[data-node='0-0'] .piece") == [trace.pieces[best.token].removeprefix("▁")]
    assert labels(browser, "[data-node='0-0'] .total") == [f"{best.log_probability:.2f}".replace("-", "\u2212")]
    shown(browser, traced(), tmp_path)
    assert labels(browser, "nav[aria-label=Views] button") == ["See", "Heads"]


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_it_fits_a_narrow_screen_and_a_wide_one(browser: Browser, traced: Traced, tmp_path: Path, width: int) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        shown(browser, traced(), tmp_path)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelector('.field').getBoundingClientRect().top") < 0.65 * 800
    finally:
        browser.request("Emulation.clearDeviceMetricsOverride")


def test_hostile_tokens_are_only_text(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    source = (
        "</script><script>window.harmed=1</script>",
        "<img/src=x/onerror=window.harmed=1>",
        "<!--<script>",
        "\u202egnirts",
        "</s>",
    )
    shown(browser, traced(source=source), tmp_path)
    numbers(browser)
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert labels(browser, "figure thead th") == [*source[:3], "·gnirts", "</s>"]
    assert browser.complaints == []


@pytest.mark.parametrize("size", [1, 120])
def test_the_smallest_and_a_large_map_are_drawn(browser: Browser, traced: Traced, tmp_path: Path, size: int) -> None:
    tokens = (*(f"▁t{i}" for i in range(size - 1)), "</s>")
    trace = traced(tokens, tokens, 1, 1)
    shown(browser, trace, tmp_path)
    check_numbers(browser, MapChoice().view(trace).matrix)
    assert browser.run("document.querySelectorAll('.columns span, .rows span').length") <= 2 * 61


def test_a_notebook_shows_the_page_over_the_picture_and_the_picture_without_frames(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    """As a notebook inserts the output into its own document."""
    html = traced().show(head=1, layer=0)._repr_html_()
    save_text(f"<!doctype html><title>x</title><body>{html}</body>", tmp_path / "notebook.html")
    browser.open(tmp_path / "notebook.html")
    time.sleep(1)
    top = "document.elementFromPoint(200, 200).closest('iframe, figure').tagName"
    assert browser.run(top) == "IFRAME"
    assert [one for one in browser.complaints if "frame-ancestors" not in str(one)] == []
    browser.run("document.querySelector('iframe').remove()")
    assert browser.run(top) == "FIGURE"
    assert browser.run("document.querySelector('figure svg').getBoundingClientRect().height") > 100


def test_a_right_to_left_token_turns_only_itself(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    shown(browser, traced(("▁ספר", "</s>"), ("▁كتاب", "</s>"), 1, 1), tmp_path)
    left = "[...document.querySelectorAll('figure [role=status] bdi')].map((one) => one.getBoundingClientRect().left)"
    source, target = browser.run(left)
    assert source < target
    assert browser.run("getComputedStyle(document.querySelector('figure [role=status]')).direction") == "ltr"


@pytest.mark.skipif(not AXE.exists(), reason="needs npm ci in studio")
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(browser: Browser, tmp_path: Path, look: str) -> None:
    with browser.look(look) as width:
        shown(browser, Trace.load(HISTORY), tmp_path)
        for view in ("See", "Heads", "Theatre"):
            press_button(browser, view)
            assert browser.violations() == [], view
            assert browser.run("document.documentElement.scrollWidth") <= width, view


def test_tab_reaches_everything(browser: Browser, tmp_path: Path) -> None:
    shown(browser, Trace.load(HISTORY), tmp_path)
    for view in ("See", "Heads", "Theatre"):
        press_button(browser, view)
        assert {"See", "Heads", "Theatre"} <= set(browser.check_tour())
