"""Every number that a page shows of a trace is Python's, for three golden traces, digit by digit.

The pages are driven as a person does: heads are pressed, switches set, and the cursor goes over all cells.
"""

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser

from dragoman.inspection.heads import summarise_heads
from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.inspection.view import KINDS, MapChoice, choose

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from studio_inputs import print_weight, printed_maps  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

GOLDEN = sorted((ROOT / "tests" / "golden").glob("schema-*.trace"))
MAPS = """
(async () => {
  const settle = () => new Promise((done) => setTimeout(done));
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const texts = (elements) => elements.map((one) => one.textContent);
  const set = async (box, value) => { if (box && box.checked !== value) { box.click(); await settle(); } };
  const boxes = () => all(".map .check input");
  const found = [];
  document.querySelector("figure details").open = true;
  for (const button of all(".heads .mean, .heads .head")) {
    button.click();
    await settle();
    for (const rows of ["written", "read"])
      for (const measure of ["attention", "norm"])
        for (const hide of [false, true])
          for (const words of [false, true]) {
            const row = document.querySelector(`.map input[value=${rows}]`);
            if ((!row && rows === "read") || (words && boxes().length < 2)) continue;
            await set(row, true);
            await set(document.querySelector(`.map input[value=${measure}]`), true);
            if (boxes().length > 1) await set(boxes()[0], words);
            await set(boxes().at(-1), hide);
            const lines = all("figure tbody tr");
            found.push({
              rows, measure, hide_sinks: hide, by_word: words, name: button.getAttribute("aria-label"),
              row_labels: texts(all("figure tbody th")), column_labels: texts(all("figure thead th")),
              numbers: lines.map((line) => texts(all("td", line))),
              sink_share: texts(all(".trust li")).find((text) => text.includes("on marks")),
              is_empty: all("figure .note").length > 0 && all("figure tbody td").every((cell) => !+cell.textContent),
            });
          }
  }
  return found;
})()
"""
CELLS = """
(async () => {
  const settle = () => new Promise((done) => setTimeout(done));
  const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent.trim());
  const field = document.querySelector(".field");
  const press = async (key) => {
    field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await settle();
  };
  const cells = [];
  for (let i = 0; i < %d; i++) await press("ArrowUp");
  for (let i = 0; i < %d; i++) {
    await press("Home");
    for (let j = 0; j < %d; j++) {
      cells.push({
        value: document.querySelector("figure [role=status]").textContent,
        alternatives: texts("[aria-label^='Most probable'] li"),
        looks: texts("[aria-label^='Largest'] .number"),
        step: document.querySelector(".step h3").textContent,
      });
      await press("ArrowRight");
    }
    await press("ArrowDown");
  }
  return cells;
})()
"""


def plain(label: str) -> str:
    return label.removeprefix("▁") or label


def percent(log_probability: float) -> str:
    value = 100 * float(np.exp(log_probability))
    return f"{'< 0.1' if 0 < value < 0.095 else f'{value:.1f}'} %"


@pytest.fixture(scope="module", params=GOLDEN, ids=lambda path: path.stem)
def trace(request: pytest.FixtureRequest) -> Trace:
    return Trace.load(request.param)


def opened(browser: Browser, trace: Trace, folder: Path) -> Trace:
    """The trace as the page has it, in half precision, which tests of files compare with the whole one."""
    page = trace_page(trace)
    save_text(page, folder / "page.html")
    browser.open(folder / "page.html")
    browser.until("document.querySelector('.field canvas') !== null")
    data = json.loads(page.split('id="dragoman-trace">')[1].split("</script>")[0])
    (folder / "a.trace").write_bytes(base64.b64decode(data["trace"]))
    return Trace.load(folder / "a.trace")


def test_every_map_of_every_head_by_both_rows_and_measures(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    shown = opened(browser, trace, tmp_path)
    found = browser.run(MAPS)
    by_place: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    places = [
        (kind, layer, head)
        for kind in KINDS
        for layer, name in enumerate(shown.names(kind))
        for head in ("mean", *range(len(shown.attention[name])))
    ]
    names = list(dict.fromkeys(one["name"] for one in found))
    assert len(names) == len(places)
    for one in found:
        place = places[names.index(one["name"])]
        by_place[*place, one["rows"], one["measure"], one["by_word"], one["hide_sinks"]] = one
    count = 0
    for expected in printed_maps(shown):
        key = tuple(expected[part] for part in ("kind", "layer", "head", "rows", "measure", "by_word", "hide_sinks"))
        one = by_place.pop(key)
        assert f"{expected['sink_share']} % on marks" in one["sink_share"], key
        assert one["is_empty"] == expected["is_empty"], key
        if expected["is_empty"]:
            continue
        assert one["row_labels"] == list(map(plain, expected["row_labels"])), key
        assert one["column_labels"] == list(map(plain, expected["column_labels"])), key
        for texts, numbers in zip(one["numbers"], expected["numbers"], strict=True):
            assert all(text in number.split("|") for text, number in zip(texts, numbers, strict=True)), (key, texts)
            count += len(texts)
    assert not by_place
    assert count > 5000


def test_the_cursor_tells_every_cell_and_the_probabilities_of_its_step(
    browser: Browser, trace: Trace, tmp_path: Path
) -> None:
    shown = opened(browser, trace, tmp_path)
    choice = choose(shown)
    view = MapChoice("cross", choice.layer, choice.head, choice.rows, choice.measure).view(shown)
    size = view.matrix.shape
    cells = browser.run(CELLS % (size[0], *size))
    for place, cell in zip(np.ndindex(*size), cells, strict=True):
        row, column = place
        words, _, number = cell["value"].replace("\u2068", "").replace("\u2069", "").rpartition(": ")
        assert words == f"{plain(view.rows[row])} looked at {plain(view.columns[column])}"
        assert number in print_weight(float(view.matrix[place])).split("|")
        looks = sorted((value for value in view.matrix[row].tolist() if value > 0), reverse=True)[:5]
        assert len(cell["looks"]) == len(looks)
        assert all(text in print_weight(value).split("|") for text, value in zip(cell["looks"], looks, strict=True))
        step = row - (choice.rows == "read")  # which wrote the token of the row
        if step < 0:
            assert (cell["alternatives"], cell["step"]) == ([], "<s> looked most at")
            continue
        ids, scores = shown.alternative_ids[step].tolist(), shown.alternative_log_probabilities[step].tolist()
        assert cell["alternatives"] == [
            f"{plain(shown.pieces[token])} {percent(score)}" for token, score in zip(ids, scores, strict=True)
        ]
        assert cell["step"].startswith(f"Step {step + 1} of {size[0]} wrote “{plain(shown.target.pieces[step])}”")


def test_the_trust_strip_the_words_and_the_roles(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    shown = opened(browser, trace, tmp_path)
    strip = browser.text(".trust").replace("\u2212", "-")
    total = float(shown.log_probabilities.astype(np.float64).sum())
    assert f"log-probability {total:.2f}, {total / len(shown.target.pieces):.2f} per token" in strip
    assert f"model {shown.model.sha256[:8]}" in strip or not shown.model.sha256
    titles = browser.run("[...document.querySelectorAll('.line.target button')].map((one) => one.title)")
    of_words = [
        sum(float(shown.log_probabilities[i]) for i, of in enumerate(shown.target.words) if of == word)
        for word in range(len(shown.target.text.split()))
    ]
    assert titles == [f"probability {percent(score)}" for score in of_words]
    browser.run("[...document.querySelectorAll('nav button')].find((one) => one.textContent === 'Heads').click()")
    browser.until("document.querySelector('.cards') !== null")
    numbers = browser.run("[...document.querySelectorAll('.cards .numbers')].map((one) => one.textContent)")
    summaries = [one for kind in KINDS for one in summarise_heads([shown]) if one.kind == kind and one.label != "off"]
    entropies = ["" if one.entropy is None else f"entropy {one.entropy:.2f}, " for one in summaries]
    shares = [f"{100 * one.sink_share:.0f} % on marks" for one in summaries]
    assert numbers == [entropy + share for entropy, share in zip(entropies, shares, strict=True)]
