"""The page in a real browser: from a file, without network, by keyboard."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, Browser

from dragoman.alignment.links import word_map
from dragoman.inspection.html_file import save_text
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.page import page
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice, view

Traced = Callable[..., Trace]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


def shown(browser: Browser, trace: Trace, folder: Path) -> Trace:
    save_text(page(trace), folder / "page.html")
    browser.open(folder / "page.html")
    browser.run(
        "const twin = document.getElementById('twin'); twin.open = true; twin.dispatchEvent(new Event('toggle'))"
    )
    return trace


def test_it_opens_from_a_file_asks_for_nothing_and_has_no_complaints(
    browser: Browser, traced: Traced, tmp_path: Path
) -> None:
    shown(browser, traced(), tmp_path)
    assert browser.requested == [(tmp_path / "page.html").as_uri()]
    assert browser.complaints == []
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
        expected = f"{seen.rows[row]} (written) looked at {seen.columns[column]}: {seen.matrix[row, column]:.3f}"
        assert browser.text("#live") == expected
        assert browser.text("#readout") == expected


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
    expected = view(changed)
    np.testing.assert_allclose(browser.numbers(), expected.matrix, atol=6e-4)
    assert browser.text("#caption") == expected.caption
    browser.run("document.getElementById('hide').click()")
    hidden = expected.without_sinks()
    np.testing.assert_allclose(browser.numbers(), hidden.matrix, atol=6e-4)
    assert hidden.empty_rows == (2,)
    assert browser.text("#sinks").endswith("Grey, as less than 20% of them is left: ▁you.")
    browser.choose(head="1")
    assert browser.text("#caption") == view(changed, head=1).caption
    browser.choose(kind="encoder", head="mean")
    assert browser.text("#caption") == view(changed, kind="encoder").caption


@pytest.mark.parametrize("rows", ["written", "read"])
def test_ribbons_lead_each_word_to_where_it_looked_most(
    browser: Browser, traced: Traced, tmp_path: Path, rows: str
) -> None:
    trace = shown(browser, traced(target=("▁H", "ow", "▁are", "▁you", "</s>")), tmp_path)
    browser.choose(rows=rows)
    given = MapChoice(rows=rows, by_word=True).view(trace)
    best = given.matrix.argmax(axis=1)
    links = [
        f"{word} to {given.columns[j]} ({given.matrix[i, j]:.2f})"
        for i, (word, j) in enumerate(zip(given.rows, best, strict=True))
    ]
    assert browser.text("#links") == f"Most of all: {', '.join(links)}."


def test_hidden_sinks_are_hidden_from_the_words_too(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = shown(browser, traced(), tmp_path)
    browser.run("document.getElementById('hide').click()")
    seen = view(trace)
    left = seen.matrix * ~np.array(seen.sinks)
    given = word_map(left / left.sum(axis=1, keepdims=True), trace.source.words, trace.target.words, "written").words
    links = [
        f"{word} to {('Wie', 'gehts', 'dir?')[row.argmax()]} ({row.max():.2f})"
        for word, row in zip(("How", "are", "you"), given, strict=True)
    ]
    assert browser.text("#links") == f"Sinks are hidden here too. Most of all: {', '.join(links)}."


def test_a_legend_says_what_the_darkest_colour_is(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = shown(browser, traced(), tmp_path)
    assert browser.text("#legend + span") == f"{view(trace).matrix.max():.2f} of the row"
    browser.choose(measure="norm")
    assert browser.text("#legend + span").endswith("norm, a length without a unit: compare it within one map")
    assert browser.run("document.querySelectorAll('#legend rect')[15].getAttribute('fill')") == "rgb(8,48,107)"


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_narrow_screen_and_a_wide_one(browser: Browser, traced: Traced, tmp_path: Path, width: int) -> None:
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False)
    try:
        shown(browser, traced(), tmp_path)
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.request("Emulation.clearDeviceMetricsOverride")


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


def test_it_opens_on_what_was_asked_for(browser: Browser, traced: Traced, tmp_path: Path) -> None:
    trace = traced()
    save_text(page(trace, MapChoice("decoder", 0, 2, "read", "norm", hide_sinks=True)), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    ids = ("kind", "layer", "head", "rows", "measure")
    assert [browser.run(f"document.getElementById({name!r}).value") for name in ids] == [
        "decoder", "0", "2", "read", "norm"
    ]  # fmt: skip
    assert browser.run("document.getElementById('hide').checked")
    assert browser.text("#caption") == view(trace, 0, 2, kind="decoder", rows="read", measure="norm").caption
    titles = "[...document.querySelectorAll('section h2')].map((one) => one.id)"
    assert browser.run(titles) == ["map-title", "words-title", "table-title"]
    save_text(page(trace, MapChoice("cross", 0, "mean", "read", "attention", by_word=True)), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run(titles) == ["words-title", "map-title", "table-title"]
